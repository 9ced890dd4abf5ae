"""Clients that leave a server at random moments; afterwards it must be as if they had never been there.

python -m tests.server.leaving [--clients 2000] [--at-once 16] [--seed 1] [--record] [--specdec build/default/specdec]

Each client sends one request, of which a part may be missing, and closes its connection after a random time or after a
random number of tokens: while its request waits for a slot, while its prompt is read, between two tokens, while its
grammar compiles. Then every slot is idle, the process has the threads and descriptors that it had after the first
clients, and twenty greedy texts are those of a fresh server. With --record, the clients are added to
tests/figures.jsonl, for docs/security.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import socket
import struct
import threading
import time

from tests import figures
from tests.server.running import Server, serving, wait_until

OPTIONS: tuple[object, ...] = ("-np", 3, "--queue", 64, "-c", 512)
LINES = [f"    value_{i} = compute({i}, name='{i * 7919 % 1000}')\n" for i in range(40)]
PROMPTS = [f"def function_{i}(argument):\n" + "".join(LINES[i : i + i % 5]) for i in range(20)]
ENOUGH = (
    120  # clients, four times as many at once as later: a server keeps a thread for each that it had to serve at once
)


def texts(server: Server) -> list[str]:
    return [server.text(prompt=prompt, temperature=0, max_tokens=8) for prompt in PROMPTS]


def schema(chance: random.Random) -> dict[str, object]:
    """An object that no other client asks for."""
    names = [f"name_{chance.randrange(10**9)}" for _ in range(chance.randint(1, 12))]
    kinds: list[dict[str, object]] = [
        {"type": "string", "maxLength": 20},
        {"type": "integer"},
        {"enum": ["one", "two"]},
        {"type": "array", "items": {"type": "number"}, "maxItems": 3},
    ]
    return {"type": "object", "properties": {name: chance.choice(kinds) for name in names}, "required": names}


def request(chance: random.Random) -> tuple[str, bytes]:
    """The kind of a client, and the bytes that it sends."""
    kind = chance.choice(["short", "prompt", "shared", "grammar", "chat", "part"])
    text = "".join(chance.sample(LINES, 12)) if kind in ("prompt", "part") else "".join(LINES[: chance.randint(1, 14)])
    body: dict[str, object] = {
        "max_tokens": chance.randint(1, 120),
        "stream": chance.random() < 0.7,
        "ignore_eos": True,
    }
    body |= {"temperature": chance.choice([0, 1]), "seed": chance.randrange(1000)}
    path = "/v1/completions"
    if kind == "chat":
        path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": text}]
    else:
        body["prompt"] = "def f(" if kind == "short" else text
    if kind == "grammar":
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema(chance)}}
    data = json.dumps(body).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    whole = "\r\n".join([*head, "", ""]).encode() + data
    return kind, whole[: chance.randrange(len(whole))] if kind == "part" else whole


def visit(port: int, number: int, seed: int) -> str:
    """One client. Returns what it was and how it left."""
    chance = random.Random(f"{seed} {number}")
    kind, data = request(chance)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        if chance.random() < 0.3:  # the connection is reset instead of closed
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(data)
        if chance.random() < 0.7:
            time.sleep(chance.choice([0.0, 0.005, 0.05, 0.3]) * chance.random())
            return f"{kind}, after a time"
        wanted = chance.randint(1, 10)
        got = b""
        connection.settimeout(2)
        try:
            while got.count(b"data: ") < wanted and (part := connection.recv(4096)):
                got += part
        except OSError:
            return f"{kind}, waited"
        return f"{kind}, after an answer"


def visits(port: int, numbers: range, at_once: int, seed: int) -> collections.Counter[str]:
    left = iter(numbers)
    lock = threading.Lock()
    seen: collections.Counter[str] = collections.Counter()

    def run() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            try:
                outcome = visit(port, number, seed)
            except OSError as error:
                outcome = f"refused: {error}"
            with lock:
                seen[outcome] += 1

    threads = [threading.Thread(target=run) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def resources(server: Server) -> tuple[int, int]:
    """Threads and descriptors of the process."""
    process = pathlib.Path(f"/proc/{server.process.pid}")
    return tuple(len(list((process / kind).iterdir())) for kind in ("task", "fd"))  # type: ignore[return-value]


def is_idle(server: Server) -> bool:
    return server.num_unfinished() == 0 and not any(slot["is_processing"] for slot in server.get("/slots").json)


def check(specdec: pathlib.Path, num_clients: int, at_once: int, seed: int) -> collections.Counter[str]:
    with serving(specdec, *OPTIONS) as fresh:
        expected = texts(fresh)
    with serving(specdec, *OPTIONS) as server:
        try:
            return leave(server, expected, num_clients, at_once, seed)
        except (OSError, AssertionError):
            if server.process.poll() is None:
                raise
            code, error = server.wait()
            raise AssertionError(f"the server ended with {code}: {error}") from None


def leave(server: Server, expected: list[str], num_clients: int, at_once: int, seed: int) -> collections.Counter[str]:
    assert texts(server) == expected
    visits(server.port, range(ENOUGH), 4 * at_once, seed)
    wait_until(lambda: is_idle(server))
    before = resources(server)
    seen = visits(server.port, range(ENOUGH, ENOUGH + num_clients), at_once, seed)
    wait_until(lambda: is_idle(server))
    wait_until(lambda: all(now <= then for now, then in zip(resources(server), before, strict=True)))
    assert texts(server) == expected
    code, error = server.stop()
    assert code == 0, error
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--specdec", type=pathlib.Path, default=pathlib.Path("build/default/specdec"))
    arguments = parser.parse_args()
    start = time.monotonic()
    seen = check(arguments.specdec, arguments.clients, arguments.at_once, arguments.seed)
    for outcome, count in sorted(seen.items()):
        print(f"{count:6} {outcome}")
    if arguments.record:
        figures.record("leaving", inputs=seen.total())
    print(f"{seen.total()} clients left in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
