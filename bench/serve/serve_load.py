"""Many clients at once against `specdec serve` and llama-server.

python -m bench.serve.serve_load [--clients 64] [--seconds 120] [--slots 8]

Every server gets the same streamed completions (prompts of bench/common/prompts, greedy and with temperature 0.8,
each with a seed and a number of tokens; the end of the text is banned), first one at a time, then from all clients at
once, each of which sends the next request when it is through with the last. A third of the requests end badly: the
client closes the connection after some tokens ("cancelled"), reads with pauses ("slow") or resets the connection
("dropped"). Afterwards the server must be idle and serve all slots again. A text that differs from the same request's
text alone is wrong; of llama-server, which does not promise that, such texts are only counted. Ends with status 1 if
specdec has a wrong text, lost a slot, or grew by more than 5 % in the second half.

llama-server is that of the pinned source with its default options (cmake --preset default -DSPECDEC_PEERS=ON, then
build). The clients are one process, the server another. Prints a table, and with --report writes it to
bench/serve/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import pathlib
import platform
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from bench.common.paths import BUILD, ROOT
from bench.common.texts import PROMPTS

MODELS = ROOT / "models"
BEHAVIOURS = ["whole"] * 6 + ["cancelled", "slow", "dropped"]


@dataclass(frozen=True)
class Job:
    prompt: str
    temperature: float
    seed: int
    max_tokens: int

    def body(self) -> bytes:
        options = {
            "prompt": self.prompt,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
        }
        return json.dumps({**options, "stream": True, "ignore_eos": True}).encode()


def make_jobs() -> list[Job]:
    jobs: list[Job] = []
    for path in sorted((PROMPTS).glob("*.txt")):
        text = path.read_text()[:400]
        for i, length in enumerate((60, 150, 400)):
            jobs.append(Job(text[:length], 0.8 * (i % 2), len(jobs), 24 + 24 * i))
    return jobs


@dataclass
class Load:
    """What the clients of one server saw."""

    num_ended: Counter[str] = field(default_factory=Counter)  # by behaviour
    first: list[float] = field(default_factory=list)  # seconds from the request to the first text
    between: list[float] = field(default_factory=list)  # seconds between two pieces of text; of whole requests
    num_tokens: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)  # bytes, twice a second
    num_lost_slots: int = 0
    seconds: float = 0.0


# ---- Servers


@contextlib.contextmanager
def running(command: list[object]) -> Iterator[tuple[int, int]]:
    """(port, process id) of a server, once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    arguments = [str(part) for part in [*command, "--host", "127.0.0.1", "--port", port]]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while get(port, "/health") != 200:
            if process.poll() is not None:
                sys.exit(f"{arguments[0]} ended with status {process.returncode}")
            time.sleep(0.1)
        yield port, process.pid
        if process.poll() is not None:
            sys.exit(f"{arguments[0]} died")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def get(port: int, path: str) -> int:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            return int(connection.makefile("rb").readline().split()[1])
    except (OSError, IndexError):
        return 0


def memory_of(process: int) -> int:
    """Bytes that are the process's own: not those of the models' files."""
    lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


# ---- Clients


class Failed(Exception):
    """The server's answer is an error."""


async def pieces(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    status = await reader.readline()
    if status.split()[1:2] != [b"200"]:
        raise Failed(f"status {status.decode().strip()[9:]}")
    async for line in reader:
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            return
        event = json.loads(line[6:])
        if "error" in event:
            raise Failed(str(event["error"]))
        if event["choices"] and event["choices"][0]["text"]:
            yield event["choices"][0]["text"]
    raise Failed("the stream has no end")


async def request(port: int, job: Job, behaviour: str, load: Load) -> str:
    """The text, or as much of it as the behaviour reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start = time.monotonic()
    text, times = "", []
    num_wanted = random.randrange(1, 20) if behaviour in ("cancelled", "dropped") else sys.maxsize
    try:
        body = job.body()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        if behaviour == "dropped" and random.random() < 0.5:  # while it waits or its prompt is read
            await asyncio.sleep(random.random())
            return text
        async for piece in pieces(reader):
            text += piece
            times.append(time.monotonic())
            if len(times) >= num_wanted:
                break
            if behaviour == "slow":
                await asyncio.sleep(random.random() * 0.1)
    finally:
        if behaviour == "dropped":  # a reset, not an end
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        writer.close()
    if times:
        load.first.append(times[0] - start)
    load.num_tokens += len(times)
    if behaviour == "whole":
        load.between += [later - earlier for earlier, later in itertools.pairwise(times)]
    return text


async def client(port: int, jobs: list[Job], alone: dict[Job, str], end: float, load: Load) -> None:
    while time.monotonic() < end:
        job, behaviour = random.choice(jobs), random.choice(BEHAVIOURS)
        try:
            text = await request(port, job, behaviour, load)
        except (Failed, OSError) as error:
            load.failed[f"{type(error).__name__}: {error}"] += 1
            await asyncio.sleep(0.2)
            continue
        load.num_ended[behaviour] += 1
        expected = alone[job] if behaviour in ("whole", "slow") else alone[job][: len(text)]
        if text != expected:
            load.wrong.append(f"{job}: {text!r} instead of {expected!r}")


async def watch_memory(process: int, end: float, load: Load) -> None:
    while time.monotonic() < end:
        load.memory.append(memory_of(process))
        await asyncio.sleep(0.5)


async def slots_that_serve(port: int, jobs: list[Job], num_slots: int) -> int:
    """How many of as many requests as slots are served in a minute."""
    ignored = Load()
    tasks = [asyncio.create_task(request(port, jobs[i % len(jobs)], "whole", ignored)) for i in range(num_slots)]
    _, pending = await asyncio.wait(tasks, timeout=60)
    for task in pending:
        task.cancel()
    return sum(task.done() and not task.cancelled() and task.exception() is None for task in tasks)


async def measure(port: int, process: int, arguments: argparse.Namespace) -> Load:
    load, warm = Load(), Load()
    jobs = make_jobs()
    alone = {job: await request(port, job, "whole", warm) for job in jobs}
    random.seed(1)
    start = time.monotonic()
    end = start + arguments.seconds
    clients = [client(port, jobs, alone, end, load) for _ in range(arguments.clients)]
    await asyncio.gather(watch_memory(process, end, load), *clients)
    load.seconds = time.monotonic() - start
    load.num_lost_slots = arguments.slots - await slots_that_serve(port, jobs, arguments.slots)
    return load


# ---- The table


def milliseconds(values: list[float]) -> str:
    """p50 / p95 / p99"""
    ordered = sorted(values) or [0.0]
    return " / ".join(
        f"{1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.0f}" for share in (0.5, 0.95, 0.99)
    )


def growth(memory: list[int]) -> float:
    """The largest of the last quarter over the largest of the second one, minus 1."""
    quarter = max(1, len(memory) // 4)
    return max(memory[-quarter:]) / max(memory[quarter : 2 * quarter] or memory) - 1


HEADER = (
    "| server | requests (failed) | tokens/s | first token, ms: p50 / p95 / p99 | between tokens, ms: p50 / p95 / p99 "
    "| texts unlike alone | lost slots | memory, MB: first, last quarter |\n|---|---|---|---|---|---|---|---|"
)


def row(name: str, load: Load) -> str:
    quarter = max(1, len(load.memory) // 4)
    memory = f"{max(load.memory[:quarter]) / 1e6:.0f}, {max(load.memory[-quarter:]) / 1e6:.0f}"
    cells = [
        name,
        f"{sum(load.num_ended.values())} ({sum(load.failed.values())})",
        f"{load.num_tokens / load.seconds:.0f}",
        milliseconds(load.first),
        milliseconds(load.between),
        str(len(load.wrong)),
        str(load.num_lost_slots),
        memory,
    ]
    return "| " + " | ".join(cells) + " |"


def commands(arguments: argparse.Namespace) -> dict[str, list[object]]:
    models: list[object] = ["-m", arguments.target, "-t", arguments.threads, "-np", arguments.slots]
    ours = [arguments.specdec, "serve", *models, "-c", arguments.context, "--queue", 2 * arguments.clients]
    llama = [arguments.llama_server, *models, "-c", arguments.context * arguments.slots]
    table: dict[str, list[object]] = {
        "specdec, draft": [*ours, "-md", arguments.draft],
        "specdec, plain": [*ours, "-k", 0],
        "llama-server, draft": [*llama, "--spec-type", "draft-simple", "-md", arguments.draft],
        "llama-server, plain": llama,
    }
    return {name: command for name, command in table.items() if arguments.only in name}


def main() -> int:
    build = BUILD
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=512, help="tokens of each slot")
    parser.add_argument("--target", type=pathlib.Path, default=MODELS / "stdlib-target-f16.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=MODELS / "stdlib-draft-f16.gguf")
    parser.add_argument("--specdec", type=pathlib.Path, default=build / "specdec")
    parser.add_argument("--llama-server", type=pathlib.Path, default=build / "bench" / "peers" / "llama-server")
    parser.add_argument("--only", default="", help="servers whose name contains this")
    parser.add_argument("--report", action="store_true", help="write bench/serve/RESULTS.md")
    arguments = parser.parse_args()

    lines, is_bad = [HEADER], False
    print(HEADER)
    for name, command in commands(arguments).items():
        if not pathlib.Path(str(command[0])).exists():
            print(f"{name} is left out: {command[0]} is missing", file=sys.stderr)
            continue
        with running(command) as (port, process):
            load = asyncio.run(measure(port, process, arguments))
        lines.append(row(name, load))
        print(lines[-1], flush=True)
        print(f"  {dict(load.num_ended)}; failed: {dict(load.failed)}", file=sys.stderr)
        if name.startswith("specdec"):
            problems = [*load.wrong[:3], *load.failed]
            if load.num_lost_slots:
                problems.append(f"{load.num_lost_slots} lost slots")
            if arguments.seconds >= 60 and growth(load.memory) > 0.05:
                problems.append(f"memory grew by {growth(load.memory):.0%}")
            is_bad = is_bad or bool(problems)
            for problem in problems:
                print(f"  {name}: {problem}", file=sys.stderr)
    if arguments.report:
        about = f"{arguments.clients} clients for {arguments.seconds:.0f} s over {arguments.slots} slots, "
        about += f"{arguments.threads} thread{'s' * (arguments.threads != 1)}, "
        about += f"{arguments.target.name} with {arguments.draft.name}; {platform.machine()}."
        text = (
            f"# Servers under load\n\n{about} What is measured and how: `python -m bench.serve.serve_load --help`.\n\n"
        )
        (ROOT / "bench" / "serve" / "RESULTS.md").write_text(text + "\n".join(lines) + "\n")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
