"""How long /health takes while a server is full.

python -m bench.serve.health [--idle 1000] [--slow 200] [--busy 64] [--seconds 30]

`specdec serve`, then llama-server (cmake --preset default -DSPECDEC_PEERS=ON), with the bundled pair and eight slots:
idle connections, connections that send a byte of a body each few seconds, and clients that always have a streamed
completion running. /health is asked ten times a second, on a new connection each time and from a process of its own,
first without the others. Prints milliseconds: median, 99 %, and the largest; how many had no answer within 10 s, which
count as that; and how many completions the busy clients got per second.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import multiprocessing
import pathlib
import resource
import statistics
import sys
import time
from collections import Counter

from bench.common.paths import BUILD
from bench.serve.serve_load import MODELS, Job, get, make_jobs, running

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"


def row(times: list[float], num_lost: int) -> str:
    ordered = sorted(1e3 * one for one in times)
    percentile = ordered[int(0.99 * (len(ordered) - 1))]
    return f"{statistics.median(ordered):.1f} | {percentile:.1f} | {ordered[-1]:.1f} | {num_lost}"


def ask(port: int, seconds: float) -> tuple[list[float], int]:
    times, num_lost = [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        num_lost += get(port, "/health") != 200
        times.append(time.monotonic() - start)
        time.sleep(0.1)
    return times, num_lost


async def idle(port: int) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.read()  # until the server closes it
            writer.close()
        except OSError:
            await asyncio.sleep(0.1)


async def slow(port: int) -> None:
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(HEAD + b"Content-Length: 5000\r\n\r\n{")
            while True:
                await asyncio.sleep(3)
                writer.write(b" ")
                await writer.drain()
        except OSError:  # it was too slow
            continue
        finally:
            writer.close()


async def busy(port: int, jobs: list[Job], served: Counter[str]) -> None:
    while True:
        for job in jobs:
            body = job.body()
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                is_whole = b"data: [DONE]" in await reader.read()
                served["completions"] += is_whole
                writer.close()
            except OSError:
                await asyncio.sleep(0.1)


async def measure(name: str, port: int, options: argparse.Namespace, asker: concurrent.futures.Executor) -> None:
    async def times(seconds: float) -> str:
        return row(*await asyncio.get_running_loop().run_in_executor(asker, ask, port, seconds))

    print(f"| {name}: none | {await times(options.seconds / 3)} | |", flush=True)
    served: Counter[str] = Counter()
    tasks = [asyncio.create_task(idle(port)) for _ in range(options.idle)]
    tasks += [asyncio.create_task(slow(port)) for _ in range(options.slow)]
    tasks += [asyncio.create_task(busy(port, make_jobs(), served)) for _ in range(options.busy)]
    await asyncio.sleep(3)
    before, start = served.total(), time.monotonic()
    waited = await times(options.seconds)
    per_second = (served.total() - before) / (time.monotonic() - start)
    clients = f"{options.idle} idle, {options.slow} slow, {options.busy} busy"
    print(f"| {name}: {clients} | {waited} | {per_second:.1f} |", flush=True)
    for task in tasks:
        task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--busy", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--llama-server", type=pathlib.Path, default=BUILD / "bench" / "peers" / "llama-server")
    options = parser.parse_args()
    needed = options.idle + options.slow + options.busy + 100
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 4 * needed), limit))
    target = ["-m", MODELS / "stdlib-target-f16.gguf", "-np", 8, "-t", 2]
    draft = ["-md", MODELS / "stdlib-draft-f16.gguf"]
    llama = [options.llama_server, *target, "-c", 8 * 512]
    servers: dict[str, list[object]] = {
        "specdec": [BUILD / "specdec", "serve", *target, *draft, "--log-disable"],
        "llama-server, draft": [*llama, "--spec-type", "draft-simple", *draft],
        "llama-server, plain": llama,
    }
    context = multiprocessing.get_context("spawn")
    print(
        "| clients | median, ms | 99 % | largest | none in 10 s | completions/s |\n|---|---|---|---|---|---|",
        flush=True,
    )
    with concurrent.futures.ProcessPoolExecutor(1, context) as asker:
        for name, command in servers.items():
            if not pathlib.Path(str(command[0])).exists():
                print(f"{name} is left out: {command[0]} is missing", file=sys.stderr)
                continue
            with running(command) as (port, _):
                asyncio.run(measure(name, port, options, asker))


if __name__ == "__main__":
    main()
