"""How long /health takes while a server is full.

python -m bench.serve.health [--idle 1000] [--slow 200] [--busy 64] [--seconds 30]

One `specdec serve` with the bundled pair: idle connections, connections that send a byte of a body each few seconds,
and clients that always have a streamed completion running. /health is asked ten times a second, on a new connection
each time and from a process of its own, first without the others. Prints milliseconds: median, 99 %, and the largest.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import multiprocessing
import resource
import statistics
import time

from bench.common.paths import BUILD
from bench.serve.serve_load import MODELS, Job, get, make_jobs, running

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"


def row(times: list[float]) -> str:
    ordered = sorted(1e3 * one for one in times)
    return f"{statistics.median(ordered):.1f} | {ordered[int(0.99 * (len(ordered) - 1))]:.1f} | {ordered[-1]:.1f}"


def ask(port: int, seconds: float) -> list[float]:
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        assert get(port, "/health") == 200
        times.append(time.monotonic() - start)
        time.sleep(0.1)
    return times


async def idle(port: int) -> None:
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.read()  # until the server closes it
        writer.close()


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


async def busy(port: int, jobs: list[Job]) -> None:
    while True:
        for job in jobs:
            body = job.body()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await reader.read()
            writer.close()


async def measure(port: int, options: argparse.Namespace, asker: concurrent.futures.Executor) -> None:
    async def times(seconds: float) -> str:
        return row(await asyncio.get_running_loop().run_in_executor(asker, ask, port, seconds))

    print("| clients | median, ms | 99 % | largest |\n|---|---|---|---|")
    print(f"| none | {await times(options.seconds / 3)} |", flush=True)
    tasks = [asyncio.create_task(idle(port)) for _ in range(options.idle)]
    tasks += [asyncio.create_task(slow(port)) for _ in range(options.slow)]
    tasks += [asyncio.create_task(busy(port, make_jobs())) for _ in range(options.busy)]
    await asyncio.sleep(3)
    print(f"| {options.idle} idle, {options.slow} slow, {options.busy} busy | {await times(options.seconds)} |")
    for task in tasks:
        task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--busy", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    needed = options.idle + options.slow + options.busy + 100
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 4 * needed), limit))
    pair = ["-m", MODELS / "stdlib-target-f16.gguf", "-md", MODELS / "stdlib-draft-f16.gguf"]
    context = multiprocessing.get_context("spawn")
    with (
        concurrent.futures.ProcessPoolExecutor(1, context) as asker,
        running([BUILD / "specdec", "serve", *pair, "-np", 8, "-t", 2, "--log-disable"]) as (port, _),
    ):
        asyncio.run(measure(port, options, asker))


if __name__ == "__main__":
    main()
