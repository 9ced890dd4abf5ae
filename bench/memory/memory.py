"""Tokens per second of a model that is larger than its memory, under a limit that a control group sets.

python -m bench.memory.memory [--megabytes 1050 800] [--prompts NAME ...] [--rounds 2] [--tokens 120] [--no-limit]

The real pair as downloaded (bench/common/real_models.py), or --target and --draft. Every generation is a process of its
own in a group with that limit (needs the right to make one; --no-limit leaves it out, and then only our --memory
counts); rows alternate within a round, and only decoding is timed. llama.cpp's program is that of --llama FOLDER
(cmake --preset default -DSPECDEC_PEERS=ON). Also printed: how fast parallel direct reads of the same file are in the
same run, and the missing bytes over the time of a plain pass as a share of that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

from bench.common.engines import Unavailable, number
from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, chat

GROUPS = pathlib.Path("/sys/fs/cgroup")
PART = 2 << 20
READERS = 4


@contextlib.contextmanager
def limited(limit: int) -> Iterator[Callable[[], None]]:
    """What a child must call to be in a control group of this many bytes."""
    first = (GROUPS / "memory").exists()  # version 1
    group = (GROUPS / "memory" if first else GROUPS) / f"bench-memory-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
        if (swap := group / "memory.swap.max").exists():
            swap.write_text("0")
    except OSError as error:
        raise Unavailable(f"no control group can be made: {error}") from None

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    try:
        yield enter
    finally:
        for _ in range(50):  # its last process may still be ending
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def evict(path: pathlib.Path) -> None:
    """Pages that an earlier process has read do not count in the group of a later one."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def direct_speed(path: pathlib.Path, most: int = 512 << 20) -> float:
    """Bytes per second of parallel direct reads."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    count = min(os.fstat(file).st_size, most) // PART
    offsets = iter([i * PART for i in range(count)])
    lock = threading.Lock()

    def run() -> None:
        with mmap.mmap(-1, PART) as memory:
            while True:
                with lock:
                    offset = next(offsets, None)
                if offset is None:
                    return
                os.preadv(file, [memory], offset)

    start = time.monotonic()
    threads = [threading.Thread(target=run) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(file)
    return count * PART / (time.monotonic() - start)


class Rows:
    def __init__(self, arguments: argparse.Namespace, tiles: pathlib.Path) -> None:
        self.arguments, self.tiles = arguments, tiles
        self.missing: dict[int, float] = {}  # bytes that a plain pass reads, by limit

    def output(self, limit: int, command: list[object]) -> str:
        for path in (self.arguments.target, self.arguments.draft):
            evict(path)
        with contextlib.ExitStack() as stack:
            enter = None if self.arguments.no_limit else stack.enter_context(limited(limit))
            words = [str(word) for word in command]
            run = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", preexec_fn=enter
            )
        if run.returncode != 0:
            raise Unavailable(f"{pathlib.Path(words[0]).name} ended with {run.returncode}: {run.stderr[-300:]}")
        return run.stdout + "\n" + run.stderr

    def request(self, prompt: pathlib.Path, temperature: float) -> list[object]:
        common: list[object] = ["-m", self.arguments.target, "-f", prompt, "--temp", temperature, "-s", 1]
        return [*common, "-n", self.arguments.tokens, "-t", self.arguments.threads, "-c", 1024]

    def llama(self, limit: int, prompt: pathlib.Path, temperature: float) -> tuple[float, float]:
        program = self.arguments.llama / "llama-completion"
        if not program.exists():
            raise Unavailable(f"{program} is missing: cmake --preset default -DSPECDEC_PEERS=ON, then build")
        tokens = max(8, self.arguments.tokens // 10)  # minutes each
        request = [*self.request(prompt, temperature), "-n", tokens, "-no-cnv", "--no-display-prompt", "--perf"]
        out = self.output(limit, [program, *request])
        runs = number(r"\beval time = .*?/ +(\d+) runs", out)
        return runs / (number(r"(?<!prompt )eval time = +([\d.]+) ms", out) / 1e3), 1.0

    def ours(self, *options: object) -> Callable[[int, pathlib.Path, float], tuple[float, float]]:
        def run(limit: int, prompt: pathlib.Path, temperature: float) -> tuple[float, float]:
            memory = ["--memory", limit, "--tile-cache", self.tiles, "--no-auto-cache"]
            command = [self.arguments.build / "specdec", "generate", "--json", *self.request(prompt, temperature)]
            out = self.output(limit, [*command, *memory, *options])
            stats = json.loads(next(line for line in reversed(out.splitlines()) if '"stats"' in line))["stats"]
            read = re.search(r"every pass reads ([\d.]+) GB", out)
            if read and "none" in options:
                self.missing[limit] = float(read.group(1)) * 1e9
            return stats["tokens"] / stats["seconds"], stats["tokens"] / max(1, stats["target_calls"])

        return run

    def all(self) -> dict[str, Callable[[int, pathlib.Path, float], tuple[float, float]]]:
        draft = ["-md", self.arguments.draft]
        rows = {
            "llama.cpp": self.llama,
            "ours, plain": self.ours("-md", "none"),
            "ours, draft, K = 12": self.ours(*draft, "-k", 12),
            "ours, draft (default)": self.ours(*draft),
            "ours, itself (default)": self.ours("--draft", "self"),
        }
        return {name: run for name, run in rows.items() if any(word in name for word in self.arguments.rows)}


def cases(arguments: argparse.Namespace, folder: pathlib.Path) -> Iterator[tuple[str, pathlib.Path, float]]:
    """What is generated: in each round every prompt, its file and a temperature."""
    for _ in range(arguments.rounds):
        for name in arguments.prompts:
            prompt = folder / f"{name}.txt"
            prompt.write_text(chat(CHAT_PROMPTS[name]))
            for temperature in arguments.temperatures:
                yield name, prompt, temperature


def measure(arguments: argparse.Namespace, tiles: pathlib.Path, folder: pathlib.Path) -> None:
    rows = Rows(arguments, tiles)
    speeds: dict[tuple[int, str, str, float], list[tuple[float, float]]] = {}
    disk: list[float] = []
    for name, prompt, temperature in cases(arguments, folder):
        for megabytes in arguments.megabytes:
            for row, run in rows.all().items():
                try:
                    result = run(megabytes * 10**6, prompt, temperature)
                except Unavailable as reason:
                    print(f"left out: {row}: {reason}")
                    continue
                speeds.setdefault((megabytes, row, name, temperature), []).append(result)
            if files := [*tiles.glob("*.tiles")]:
                disk.append(direct_speed(files[0]))
    print("| MB | row | prompt | temperature | tokens/s | tokens a pass |\n|---|---|---|---|---|---|")
    for (megabytes, row, name, temperature), results in sorted(speeds.items()):
        rate, per_pass = (statistics.median(values) for values in zip(*results, strict=True))
        print(f"| {megabytes} | {row} | {name} | {temperature:g} | {rate:.2f} | {per_pass:.1f} |")
    if not disk:
        return
    print(f"\nParallel direct reads: {statistics.median(disk) / 1e9:.2f} GB/s (median of {len(disk)})")
    for megabytes in arguments.megabytes:
        plain = [
            rate
            for (limit, row, _, _), results in speeds.items()
            for rate, _ in results
            if row == "ours, plain" and limit == megabytes
        ]
        if plain and (missing := rows.missing.get(megabytes * 10**6)):
            share = missing * statistics.median(plain) / statistics.median(disk)
            print(f"{megabytes} MB: a plain pass reads {missing / 1e9:.2f} GB at {share:.0%} of that")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=FOLDER / f"{PAIR[0]}.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=FOLDER / f"{PAIR[1]}.gguf")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1050, 800])
    parser.add_argument(
        "--prompts", nargs="+", default=["merge", "photosynthesis", "story"], choices=sorted(CHAT_PROMPTS)
    )
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-limit", action="store_true", help="no control group")
    parser.add_argument("--rows", nargs="+", default=[""], help="only rows whose names have one of these")
    parser.add_argument("--llama", type=pathlib.Path, help="folder of llama.cpp's programs")
    arguments = parser.parse_args()
    arguments.llama = arguments.llama or arguments.build / "bench" / "peers"
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, pathlib.Path(folder) / "tiles", pathlib.Path(folder))


if __name__ == "__main__":
    main()
