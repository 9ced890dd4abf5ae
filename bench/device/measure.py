"""A GPU in nine minutes: exactness, tests, milliseconds per pass, tokens per second. bench/device/measure.sh starts it.

bench/device/measure.sh [--devices CUDA0 Vulkan0] [--minutes 8.5] [--only check tests passes speed] [--short]

1. check: `specdec info --check`; rows of logits of the bundled target in passes of other widths, with and without
   padding (docs/devices.md).
2. tests: tests/gpu, those of exactness first, as far as three minutes go.
3. passes: milliseconds per pass of 1 to 16 tokens by weight type (MXFP6 weights are Q8_0 on a device) and of a mixture
   of experts, with llama.cpp's library as it is and with the batch-invariant kernels; llama-bench of the same build.
4. speed: tokens per second of a 7B whose draft is accepted at 0.7 and at 0.9, greedy and at temperature 0.8, from one
   server at a time: plain, the best number of drafts, "auto", the draft on the CPU, --no-exact, llama-server with and
   without its draft. The models are the bundled ones, widened here (models/widen.py), while the tests run.

Each section has a share of the time; what does not fit is left out, and a line says so. llama.cpp's own programs load
our module, by GGML_BACKEND_PATH. Prints Markdown and writes it to --to. --short: the same commands with the bundled
models as they are, few tests, few passes; a rehearsal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.common.options import parser_of
from bench.common.paths import DRAFT, ROOT, TARGET
from bench.common.random_models import model_file
from bench.common.wide_models import Workshop
from bench.passes.passes import DEVICE_TYPES
from tests.gpu.listed import listed_devices
from tests.models.tiny_models import Shape

SECTIONS = ["check", "tests", "passes", "speed"]
# Those that compare bits come first.
EXACTNESS_TESTS = ["test_rows", "test_generator", "test_heads", "test_places", "test_several_devices", "test_failures"]
PROMPT = "def bfs(graph, start):"
MIXTURE = Shape(width=1024, heads=16, kv_heads=4, head=64, ffn=256, layers=20, experts=64, experts_used=8, context=2048)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    size: str  # of the target, for models/widen.py
    draft: str
    rates: Sequence[float]
    draft_tokens: Sequence[int]
    tokens: int  # of an output
    pass_tokens: Sequence[int]
    rounds: int
    types: Sequence[str]
    check_seconds: int  # of `info --check`; a software device compiles its shaders first, which takes minutes
    test_seconds: int
    tests: Sequence[str]  # further arguments of pytest
    mixture: Shape | None


WHOLE = Plan(
    size="7b",
    draft="115m-draft",
    rates=(0.7, 0.9),
    draft_tokens=(1, 2, 4, 7),
    tokens=96,
    pass_tokens=(1, 2, 3, 4, 6, 8, 12, 16),
    rounds=2,
    types=DEVICE_TYPES,
    check_seconds=60,
    test_seconds=180,
    tests=(),
    mixture=MIXTURE,
)
# Mesa's software device takes minutes to compile the shaders for some types.
SHORT = replace(
    WHOLE,
    size="same",
    draft="same-draft",
    rates=(0.7,),
    draft_tokens=(2,),
    tokens=12,
    pass_tokens=(1, 8),
    rounds=1,
    types=("Q8_0",),
    check_seconds=600,
    test_seconds=300,
    tests=("-k", "test_rows_do_not_depend_on_the_cut and llama"),
    mixture=None,
)


class OutOfTime(Exception):
    pass


class Clock:
    """The time that is left of the whole run."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()

    def limit(self, wanted: float, needed: float = 5) -> float:
        """Seconds for a step that is given `wanted` and makes no sense below `needed`."""
        if self.left() < needed:
            raise OutOfTime("the time was over")
        return min(wanted, self.left())


class Report:
    """Lines of Markdown: printed, and in a file, complete at any time."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")

    def add(self, *lines: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            for line in lines:
                print(line, flush=True)
                file.write(line + "\n")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = [header, ["---"] * len(header), *rows]
        self.add(*("| " + " | ".join(cells) + " |" for cells in lines), "")


def output_of(command: Sequence[object], seconds: float, environment: dict[str, str] | None = None) -> str:
    """What a command prints; of one that fails or takes too long, its last line."""
    words = [str(word) for word in command]
    try:
        finished = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            timeout=seconds,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfTime(f"not done after {seconds:.0f} s") from error
    if finished.returncode != 0:
        raise RuntimeError((finished.stdout.strip().splitlines() or [f"exit {finished.returncode}"])[-1])
    return finished.stdout


class Measurement:
    def __init__(self, options: argparse.Namespace, clock: Clock, report: Report) -> None:
        self.options, self.clock, self.report = options, clock, report
        self.plan: Plan = SHORT if options.short else WHOLE
        self.build: pathlib.Path = options.build
        self.models: pathlib.Path = options.models
        self.specdec = self.build / "specdec"
        self.peers = self.build / "bench" / "peers"

    def module(self, device: str) -> pathlib.Path:
        return self.build / ("specdec-cuda.so" if device.startswith("CUDA") else "specdec-vulkan.so")

    # ---- 0. What is measured

    def about(self, listed: str) -> None:
        lines = ["# A GPU, measured", ""]
        with contextlib.suppress(OSError):
            names = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            model = next((line.split(": ")[1] for line in names if line.startswith("model name")), platform.machine())
            lines.append(f"- CPU: {model}, {os.cpu_count()} threads")
        lines += [f"- {line}" for line in listed.splitlines()]
        with contextlib.suppress(OSError, RuntimeError, OutOfTime):
            query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"]
            lines += [f"- {line}" for line in output_of(query, 20).splitlines()]
        with contextlib.suppress(OSError, RuntimeError, OutOfTime):
            lines.append(f"- commit {output_of(['git', 'rev-parse', '--short', 'HEAD'], 20).strip()}")
        self.report.add(*lines, "")

    # ---- 1. Exactness

    def check(self, device: str) -> None:
        command = [self.specdec, "info", "--check", "-dev", device, TARGET]
        text = output_of(command, self.clock.limit(self.plan.check_seconds))
        lines = text.rpartition("\nChecked: ")[2].splitlines()[1:]  # wrapped
        self.report.add(" ".join(line.strip() for line in lines), "")
        self.widths(device)

    def widths(self, device: str) -> None:
        try:
            import numpy as np

            from specdec_native import _core
        except ImportError as error:
            self.report.add(f"Widths: not measured, since the extension cannot be loaded ({error}).", "")
            return
        tokens = [int(i * 2654435761 >> 12) % 2000 for i in range(160 if not self.options.short else 48)]
        rows = []
        for width in (8,) if self.options.short else (2, 4, 8, 16):
            cells = [str(width)]
            for pads in (False, True):
                try:
                    self.clock.limit(1)
                    expected = _core.evaluate(str(TARGET), tokens, [width], devices=[device], width=width, pads=pads)
                    cut = _core.evaluate(str(TARGET), tokens, [1, width, 2], devices=[device], width=width, pads=pads)
                    differing = int((expected.view(np.uint32) != cut.view(np.uint32)).any(axis=1).sum())
                    cells.append(f"{differing} of {len(tokens)}")
                except (RuntimeError, ValueError) as error:
                    cells.append(f"no: {error}".splitlines()[0])
            rows.append(cells)
        self.report.table(["width", "rows that differ, without padding", "with padding"], rows)

    # ---- 2. Tests

    def tests(self, device: str) -> None:
        files = [ROOT / "tests" / "gpu" / f"{name}.py" for name in EXACTNESS_TESTS]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--no-header", *self.plan.tests]
        command += ["--durations=0", "-rfE", "--verbosity=1", *map(str, files)]
        seconds = self.clock.limit(self.plan.test_seconds / len(self.options.devices), 20)
        # Where the time ends, the results so far are on the terminal's lines.
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "SPECDEC_TEST_DEVICE": device},
            start_new_session=True,
        )
        try:
            out, ended = process.communicate(timeout=seconds)[0], True
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 15)
            out, ended = process.communicate()[0], False
        results = [line for line in out.splitlines() if "::" in line]
        counts = {word: sum(f" {word}" in line for line in results) for word in ("PASSED", "FAILED", "SKIPPED")}
        if not sum(counts.values()):
            raise RuntimeError((out.strip().splitlines() or ["no test ran"])[-1])
        text = ", ".join(f"{count} {word.lower()}" for word, count in counts.items())
        self.report.add(f"{text}{'' if ended else f'; ended after {seconds:.0f} s'}.")
        self.report.add(*(f"- {line}" for line in results if line.startswith("FAILED")), "")

    # ---- 3. Passes

    def passes(self, device: str) -> None:
        command: list[object] = [sys.executable, "-m", "bench.passes.passes", "--build", self.build]
        command += ["--device", device, "--rows", device, "--rounds", self.plan.rounds, "--models", self.models]
        command += ["--threads", os.cpu_count() or 1, "--tokens", *self.plan.pass_tokens]
        files: list[pathlib.Path] = []
        if self.plan.mixture is not None:
            files.append(model_file(self.models / "mixture-q8_0.gguf", "qwen3moe", self.plan.mixture))
        groups: list[list[object]] = [["--types", *self.plan.types, *(["--small"] if self.options.short else [])]]
        groups += [["--files", file] for file in files]
        for group in groups:
            text = output_of([*command, *group], self.clock.limit(120, 20))
            self.report.add(*(line for line in text.splitlines() if line.startswith("|") or "medians" in line), "")
        self.llama_bench(device)

    def llama_bench(self, device: str) -> None:
        program = self.peers / "llama-bench"
        if not program.exists():
            self.report.add(f"llama-bench: not built (-DSPECDEC_PEERS=ON): {program}", "")
            return
        folder = self.models / "small" if self.options.short else self.models  # as bench.passes makes them
        for type in self.plan.types:
            command: list[object] = [program, "-m", folder / f"0.35b-{type}.gguf", "-ngl", 99, "-dev", device]
            command += ["-p", ",".join(map(str, self.plan.pass_tokens)), "-n", 0, "-r", self.plan.rounds, "-o", "md"]
            path = {"GGML_BACKEND_PATH": str(self.module(device))}
            text = output_of(command, self.clock.limit(60, 10), path)
            self.report.add(f"llama-bench, {type}:", "", *(line for line in text.splitlines() if line[:1] == "|"), "")

    # ---- 4. Speed

    def speed(self, device: str) -> None:
        for rate in self.plan.rates:
            target = self.models / f"{self.plan.size}-accept{rate}-q8_0.gguf"
            draft = self.models / f"{self.plan.draft}-q8_0.gguf"
            while not target.exists() or not draft.exists():
                if self.clock.limit(1) and self.making.poll() is not None and not (target.exists() and draft.exists()):
                    raise RuntimeError(f"{target.name} could not be made")
                time.sleep(0.5)
            rows: list[list[str]] = []
            for name, command, choices in self.servers(device, target, draft):
                if not pathlib.Path(str(command[0])).exists():
                    rows.append([name, "not built", ""])
                    continue
                try:
                    rows += self.rows_of_server(name, command, choices, device)
                except OutOfTime:
                    rows.append([name, "no time", ""])
                except RuntimeError as error:
                    rows.append([name, str(error), ""])
            self.report.add(f"{target.stem} with {draft.stem}, {self.plan.tokens} tokens: tokens per second", "")
            self.report.table(["", "greedy", "temperature 0.8"], rows)

    def servers(
        self, device: str, target: pathlib.Path, draft: pathlib.Path
    ) -> list[tuple[str, list[object], dict[str, list[dict[str, Any]]]]]:
        """Name, command, and for each row the options of requests, of which the fastest counts."""
        ours: list[object] = [self.specdec, "serve", "-m", target, "-dev", device, "-ngl", "all", "-c", 1024]
        drafted = [*ours, "-md", draft]
        on_device = ["-devd", device, "-ngld", "all"]
        llama: list[object] = [self.peers / "llama-server", "-m", target, "-dev", device, "-ngl", 99, "-c", 1024]
        llama += ["-np", 1]
        tuned: list[dict[str, Any]] = [{"num_draft_tokens": k} for k in self.plan.draft_tokens]
        all_rows: dict[str, list[dict[str, Any]]] = {
            "plain": [{"num_draft_tokens": 0}],
            "the best K": tuned,
            "auto": [{"num_draft_tokens": "auto"}],
        }
        speculative = ["--spec-type", "draft-simple", "-md", draft, "-devd", device, "-ngld", 99]
        return [
            ("ours", [*drafted, *on_device], all_rows),
            ("llama.cpp, plain", llama, {"": [{}]}),
            ("llama.cpp, draft", [*llama, *speculative, "--spec-draft-n-max", 4], {"K up to 4": [{}]}),
            ("ours, --no-exact", [*drafted, *on_device, "--no-exact"], all_rows),
            (
                "ours, draft on the CPU",
                [*drafted, "-ngld", 0],
                {name: all_rows[name] for name in ("the best K", "auto")},
            ),
        ]

    def rows_of_server(
        self, name: str, command: list[object], choices: dict[str, list[dict[str, Any]]], device: str
    ) -> list[list[str]]:
        rows = []
        with serving(command, self.clock.limit(60, 20), self.module(device)) as url:
            complete(url, self.plan.tokens, {}, 0.0, self.clock.limit(60))  # warms up
            for choice, options in choices.items():
                cells = [f"{name}, {choice}".rstrip(", ")]
                for temperature in (0.0, 0.8):
                    speeds = {}
                    for option in options:
                        found = [
                            complete(url, self.plan.tokens, option, temperature, self.clock.limit(60))
                            for _ in range(self.plan.rounds)
                        ]
                        speeds[str(option.get("num_draft_tokens", ""))] = statistics.median(found)
                    best = max(speeds, key=lambda key: speeds[key])
                    cells.append(f"{speeds[best]:.1f}" + (f" (K = {best})" if len(options) > 1 else ""))
                rows.append(cells)
        return rows

    def make_models(self) -> None:
        """In a process of its own, beside the tests."""
        names = [f"{self.plan.size}-accept{rate}" for rate in self.plan.rates]
        command = [sys.executable, "-m", "bench.device.measure", "--make", self.plan.draft, *names]
        command += ["--build", str(self.build), "--models", str(self.models)]
        self.making = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    # ---- All

    def run(self) -> bool:
        names, listed = listed_devices(self.specdec)
        self.options.devices = self.options.devices or names
        self.about(listed)
        if not self.options.devices:
            self.report.add("No device to measure.")
            return False
        missing = [device for device in self.options.devices if device not in names]
        if missing:
            self.report.add(f"No device {', '.join(missing)}.")
            return False
        titles = dict(zip(SECTIONS, ["Exactness", "Tests", "Milliseconds per pass", "Tokens per second"], strict=True))
        went_well = True
        self.models.mkdir(parents=True, exist_ok=True)
        if "speed" in self.options.only:
            self.make_models()
        try:
            for section in SECTIONS:
                for device in self.options.devices if section in self.options.only else ():
                    self.report.add(f"## {titles[section]}, {device}", "")
                    begin = time.monotonic()
                    try:
                        getattr(self, section)(device)
                    except OutOfTime as error:
                        self.report.add(f"Left out: {error}.", "")
                    except (RuntimeError, OSError) as error:
                        self.report.add(f"Failed: {error}", "")
                        went_well = False
                    self.report.add(f"({time.monotonic() - begin:.0f} s)", "")
        finally:
            if "speed" in self.options.only and self.making.poll() is None:
                os.killpg(self.making.pid, 15)
                self.making.wait()
        return went_well


@contextlib.contextmanager
def serving(command: list[object], seconds: float, module: pathlib.Path) -> Iterator[str]:
    """The address of a server, ours or llama.cpp's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [str(word) for word in [*command, "--host", "127.0.0.1", "--port", port]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "GGML_BACKEND_PATH": str(module), "XDG_CACHE_HOME": os.devnull},
        )
        try:
            end = time.monotonic() + seconds
            while not is_ready(port):
                if process.poll() is not None:
                    log.seek(0)
                    raise RuntimeError((log.read().strip().splitlines() or ["the server ended"])[-1])
                if time.monotonic() > end:
                    raise OutOfTime("the server was not ready")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def complete(url: str, tokens: int, options: dict[str, Any], temperature: float, seconds: float) -> float:
    """Tokens per second of one output, without its prompt."""
    body = {"prompt": PROMPT, "n_predict": tokens, "temperature": temperature, "seed": 1, "ignore_eos": True}
    data = json.dumps({**body, "cache_prompt": False, **options}).encode()
    request = urllib.request.Request(f"{url}/completion", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as reply:
            return float(json.load(reply)["timings"]["predicted_per_second"])
    except urllib.error.HTTPError as error:
        raise RuntimeError(error.read().decode()[:200]) from error
    except TimeoutError as error:
        raise OutOfTime("a request took too long") from error


def make(names: Sequence[str], workshop: Workshop) -> None:
    """Q8_0 versions; the F16 files, which are twice as large, go."""
    for name in names:
        if not (workshop.folder / f"{name}-q8_0.gguf").exists():
            workshop.make(name, "q8_0")
            (workshop.folder / f"{name}-f16.gguf").unlink()


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--devices", nargs="+", help="default: all that specdec lists")
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--short", action="store_true", help="a rehearsal: the same commands on small models")
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "build" / "device" / "RESULTS.md")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build" / "device-models")
    parser.add_argument("--make", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make, Workshop(options.models, options.build))
        return 0
    if not DRAFT.exists() or shutil.which(str(options.build / "specdec")) is None:
        sys.exit(f"{options.build / 'specdec'} is missing: build it, or give the archive of bench/device/pack.sh")
    return 0 if Measurement(options, Clock(60 * options.minutes), Report(options.to)).run() else 1


if __name__ == "__main__":
    sys.exit(main())
