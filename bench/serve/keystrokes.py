"""How long an editor's user waits for the first whole answer after typing into a file.

python -m bench.serve.keystrokes [--target FILE --draft FILE] [--tokens 1100] [--keys 12] [--per-second 3] [--rounds 3]

An editor asks for a completion at every key and breaks the last request off. `specdec serve` with one slot gets the
beginning of a file of the standard library, at whose end (or, --at 0.5: at this share of it) a name is typed letter by
letter. The time from sending the last request to its whole answer is compared with that of the last request alone, on a
server that has read nothing; then one more key is typed, which costs what its own tokens cost. Without --target it is
the bundled pair widened to the shape of a 115M model (--shape 1.1b: of that), made in the folder --models and left
there.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.common.options import parser_of
from bench.common.paths import MADE
from bench.common.texts import LIBRARY
from bench.common.wide_models import Workshop

NAME = "remaining_arguments_of_the_parser"


@contextlib.contextmanager
def serving(command: list[object]) -> Iterator[int]:
    """Its port."""
    arguments = [str(part) for part in command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            sys.exit(f"{arguments[0]} did not start")
        try:
            yield int(line.rsplit(":", 1)[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


class Typing:
    """Prompts while a name is typed into a text."""

    def __init__(self, text: str, at: float) -> None:
        cut = text.rfind("\n", 0, int(len(text) * at)) + 1 if at < 1 else len(text)
        self.before, self.after = text[:cut] + "\n    ", text[cut:]

    def prompt(self, num_keys: int) -> str:
        return self.before + NAME[:num_keys] + self.after


def send(port: int, path: str, body: dict[str, Any]) -> socket.socket:
    data = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(data)}"]
    connection.sendall("\r\n".join([*head, "", ""]).encode() + data)
    return connection


def ask(port: int, prompt: str) -> socket.socket:
    return send(port, "/v1/completions", {"prompt": prompt, "max_tokens": 16, "temperature": 0})


def answer(connection: socket.socket) -> dict[str, Any]:
    data = b""
    while part := connection.recv(65536):
        data += part
    connection.close()
    reply: dict[str, Any] = json.loads(data.split(b"\r\n\r\n", 1)[1])
    return reply


def cut_to(text: str, num_tokens: int, port: int) -> str:
    """The first lines of the text that have about this many tokens."""
    end = 3 * num_tokens
    for _ in range(4):
        end = end * num_tokens // len(answer(send(port, "/tokenize", {"content": text[:end]}))["tokens"])
    return text[: text.rfind("\n", 0, end) + 1]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path)
    parser.add_argument("--draft", type=pathlib.Path)
    parser.add_argument("--shape", default="115m")
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    parser.add_argument("--specdec", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=1100)
    parser.add_argument("--keys", type=int, default=12)
    parser.add_argument("--per-second", type=float, default=3)
    parser.add_argument("--at", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    target, draft = arguments.target, arguments.draft
    if target is None:
        target = Workshop(arguments.models, arguments.build).make(f"{arguments.shape}-target", "f16")
    command: list[object] = [arguments.specdec or arguments.build / "specdec", "serve", "-m", target]
    command += ["-md", draft] if draft else ["-md", "suffix"]
    command += ["--port", 0, "-t", arguments.threads, "-c", arguments.tokens + 512, "-np", 1, "--timeout", 0]
    with serving(command) as port:
        text = cut_to((LIBRARY / "argparse.py").read_text(), arguments.tokens, port)
    typing = Typing(text, arguments.at)

    def alone() -> tuple[float, str]:
        with serving(command) as port:
            start = time.monotonic()
            reply = answer(ask(port, typing.prompt(arguments.keys)))
            return time.monotonic() - start, reply["choices"][0]["text"]

    def typed() -> tuple[float, float, int, str]:
        with serving(command) as port:
            for keys in range(1, arguments.keys):
                connection = ask(port, typing.prompt(keys))
                time.sleep(1 / arguments.per_second)
                connection.close()
            start = time.monotonic()
            reply = answer(ask(port, typing.prompt(arguments.keys)))
            first = time.monotonic() - start
            cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
            start = time.monotonic()
            answer(ask(port, typing.prompt(arguments.keys + 1)))
            return first, time.monotonic() - start, cached, reply["choices"][0]["text"]

    print("| round | alone, s | after typing, s | ratio | of it cached, tokens | one more key, s | same text |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for i in range(arguments.rounds):
        seconds, expected = alone()
        first, later, cached, found = typed()
        ratios.append(first / seconds)
        same = "yes" if found == expected else "NO"
        print(
            f"| {i + 1} | {seconds:.2f} | {first:.2f} | {ratios[-1]:.2f} | {cached} | {later:.2f} | {same} |",
            flush=True,
        )
    print(f"\nmedian ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    try:
        main()
    except (subprocess.CalledProcessError, KeyboardInterrupt) as error:
        raise SystemExit(str(error)) from error
