"""Which small changes ("mutants") of C++ files pass all tests of their area (make mutants).

    python tests/mutants/run.py cpp/sampling cpp/speculative/decoder.cpp [--count 20] [--seed 1] [--cpp-only]

universalmutator makes the changes, by cpp.rules: another operator, another number, a condition that is negated or
false, a statement left out. --seed chooses --count of them that compile to other code, the same every time, spread over
lines. Each is made in a copy of the working tree, build/mutants, never in the tree itself. A first run of the area's
tests there (AREAS) records which lines each runs (which_tests.py). Then, for each change, only the tests that may run
the line are tried, C++ first, the quickest first, each program built when its turn comes. A change that fails a test,
or makes one take ten times as long, is noticed; one that passes all is a survivor: write a test that fails with it, or
explain in explained.txt why no test can. Ends with status 1 if there is a survivor without an explanation.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import io
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.mutants.which_tests import OneTest, Places, Recording

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "build" / "mutants"
MEMORY = 16 << 30  # bytes of address space that a test may use
LEAST_LIMIT = 20.0  # seconds
MOST_SECONDS = 120.0  # a test that takes longer is not tried


@dataclass(frozen=True)
class Area:
    """Tests of a folder of cpp: folders of tests for ctest and for pytest."""

    cpp: Sequence[str]
    python: Sequence[str] = ()


ALL_PYTHON = ["tests/sampling", "tests/engine", "tests/bindings", "tests/server"]
AREAS = {
    "sampling": Area(["sampling", "speculative"], ["tests/sampling", "tests/engine"]),
    "speculative": Area(["speculative", "engine"], ALL_PYTHON),
    "engine": Area(["engine", "server"], ALL_PYTHON),
    "server": Area(["server"], ["tests/server"]),
    "disk_cache": Area(["disk_cache", "engine"], ["tests/engine"]),
}
# Of the page in a browser, and of much work: few lines of ours for the time that they take.
NOT_TRIED = ("test_page", "test_soak", "test_load", "test_growth", "test_agents", "test_clients", "test_ray")


@dataclass(frozen=True)
class Mutant:
    path: str  # from ROOT
    line: int  # from 1
    old: str
    new: str

    def shown(self) -> str:
        return f"{self.path}:{self.line}: {self.old.strip()}  ==>  {self.new.strip()}"


# ---- Making them


def mutants_of(path: pathlib.Path, root: pathlib.Path) -> list[Mutant]:
    from universalmutator.mutator import mutants_regexp

    source = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rules = pathlib.Path(__file__).parent / "cpp.rules"
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutants_regexp(source, ruleFiles=[str(rules)], ignorePatterns=[], ignoreStringOnly=True)
    name = path.relative_to(root).as_posix()
    return [Mutant(name, line, source[line - 1], new) for line, new, *_ in found]


def in_random_order(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """A line is not chosen again before all lines were."""
    chance = random.Random(seed)
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in mutants:
        lines.setdefault((mutant.path, mutant.line), []).append(mutant)
    for group in lines.values():
        chance.shuffle(group)
    order: list[Mutant] = []
    left = list(lines.values())
    while left:
        chance.shuffle(left)
        order += [group.pop() for group in left]
        left = [group for group in left if group]
    return order


def sources(names: Sequence[str]) -> list[pathlib.Path]:
    found: list[pathlib.Path] = []
    for name in names:
        path = (ROOT / name).resolve()
        inside = sorted([*path.rglob("*.cpp"), *path.rglob("*.h")]) if path.is_dir() else [path]
        found += [file for file in inside if file not in found]
    for file in found:
        if not file.exists() or (ROOT / "cpp") not in file.parents:
            sys.exit(f"{file} is no file in cpp")
    return found


# ---- The copy


def must(problem: str, result: tuple[bool, str]) -> None:
    if not result[0]:
        sys.exit(f"{problem}:\n{result[1][-3000:]}")


class Copy:
    """The working tree as git sees it, in a folder of its own, with a build."""

    def __init__(self, folder: pathlib.Path, jobs: int) -> None:
        self.folder, self.jobs = folder, jobs
        self.build = folder / "build" / "default"
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{folder / 'python'}:{folder}",
            "SPECDEC_WERROR": "OFF",
        }
        self.of_tests = {**self.environment, "XDG_CACHE_HOME": os.devnull}  # a compiler's cache may lie there

    def update(self) -> None:
        command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        wanted = {name for name in listed if name and (ROOT / name).is_file()}
        for name in wanted:
            to = self.folder / name
            if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, to)
        for path in [path for part in ("cpp", "tests", "python") for path in (self.folder / part).rglob("*.*")]:
            name = path.relative_to(self.folder).as_posix()
            if path.suffix in (".cpp", ".h", ".py", ".txt") and name not in wanted:
                path.unlink()
        for name in (".cache", ".venv"):  # what was downloaded and built once
            if not (self.folder / name).exists():
                (self.folder / name).symlink_to((ROOT / name).resolve())
        if not (self.build / "build.ninja").exists():
            options = self.folder / "tests" / "mutants" / "options.cmake"
            configure = ["cmake", "--preset", "default", "--log-level=WARNING"]
            configure += ["-DSPECDEC_UNITY=OFF", "-DSPECDEC_KERNELS=native"]  # tests run those of every ISA
            configure += ["-DSPECDEC_BENCH=OFF", "-DCMAKE_STRIP="]  # the module keeps the lines of its code
            configure += [f"-DCMAKE_PROJECT_specdec_native_INCLUDE={options}"]
            must("the copy cannot be configured", self.run(configure, 3600))

    @contextlib.contextmanager
    def started(
        self, command: Sequence[str], environment: dict[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """All that it started ends with it."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment or self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(
        self, command: Sequence[str], seconds: float, environment: dict[str, str] | None = None
    ) -> tuple[bool, str]:
        """Whether it succeeded, and what it printed."""
        with self.started(command, environment) as process:
            try:
                out, _ = process.communicate(timeout=seconds)
                return process.returncode == 0, out
            except subprocess.TimeoutExpired:
                return False, f"took more than {seconds:.0f} s"

    def make(self, *targets: str) -> tuple[bool, str]:
        return self.run(["cmake", "--build", str(self.build), "-j", str(self.jobs), "--target", *targets], 3600)

    def objects(self, path: str) -> dict[str, str]:
        """What a source file was compiled to; of a header, all files."""
        source = pathlib.PurePath(path)
        is_source = source.suffix == ".cpp"
        folder = self.build / "cpp" / source.parts[1] if is_source else self.build / "cpp"
        found = sorted(folder.rglob(f"{source.name}.o" if is_source else "*.o"))
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}

    def programs(self, folder: str) -> list[OneTest]:
        """The built C++ tests of a folder, except those for other processors."""
        command = ["ctest", "--test-dir", str(self.build / "tests" / folder), "--show-only=json-v1"]
        command += ["-E", "_arm|_without_f16c|_share_no_code"]
        listed = json.loads(self.run(command, 60)[1])["tests"]
        return [OneTest(f"{folder}/{one['name']}", one["command"]) for one in listed]

    def program(self, test: OneTest, seconds: float) -> tuple[bool, str]:
        """Ends at the first failure (tests/check.h)."""
        lines = []
        command = ["timeout", f"{seconds:.0f}", "stdbuf", "-oL", *test.command]
        with self.started(command, self.of_tests) as process:
            assert process.stdout
            for line in process.stdout:
                lines.append(line)
                if line.startswith("FAILED"):
                    return False, line
            status = process.wait()
        if status == 124:
            return False, f"took more than {seconds:.0f} s"
        return status in (0, 77), "".join(lines[-1:])  # 77: skipped

    def pytest(self, files: Sequence[str], seconds: float) -> tuple[bool, str]:
        command = [str(self.folder / ".venv" / "bin" / "python"), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["-o", f"faulthandler_timeout={MOST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
        return self.run([*command, *files], seconds, self.of_tests)

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.path
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        lines[mutant.line - 1] = mutant.new
        path.write_text("".join(lines), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")


# ---- Trying them


class Trials:
    def __init__(self, copy: Copy, recording: Recording, with_python: bool, seconds: float) -> None:
        self.copy, self.recording = copy, recording
        self.with_cpp, self.with_python, self.seconds = True, with_python, seconds
        self.names: dict[str, list[str]] = {}  # by folder of cpp: of the tests
        self.originals: dict[str, dict[str, str]] = {}

    def prepare(self, folder: str) -> None:
        """Builds the tests of an area, and records those that never were."""
        area = AREAS.get(folder, Area([folder], [f"tests/{folder}"]))
        must("the tests cannot be built", self.copy.make(*(f"tests/{name}/all" for name in area.cpp)))
        tests = [test for name in area.cpp for test in self.copy.programs(name)]
        if self.with_python:
            must("the program cannot be built", self.copy.make("specdec", "_core", "failing_calls"))
            files = [file for name in area.python for file in sorted((self.copy.folder / name).glob("test_*.py"))]
            files = [file for file in files if not file.name.startswith(NOT_TRIED)]
            tests += [OneTest(file.relative_to(self.copy.folder).as_posix()) for file in files]
        for test in tests:
            if test.name not in self.recording.tests:
                self.record(test)
        known = [self.recording.tests[test.name] for test in tests]
        self.names[folder] = [test.name for test in known if test.seconds < MOST_SECONDS]

    def record(self, test: OneTest) -> None:
        traces = FOLDER / "traces"
        traces.mkdir(exist_ok=True)
        self.copy.of_tests["SPECDEC_TRACE"] = str(traces)
        begin = time.monotonic()
        limit = min(MOST_SECONDS, self.seconds)
        ok, out = self.copy.pytest([test.name], limit) if test.is_python else self.copy.program(test, limit)
        test.seconds = time.monotonic() - begin
        del self.copy.of_tests["SPECDEC_TRACE"]
        if not ok:  # too slow, or not for this machine
            print(f"not tried: {test.name}: {failure(out)}", flush=True)
            test.seconds = MOST_SECONDS
        built = [self.copy.build / "specdec", *(self.copy.build / "tests").glob("*/test_*")]
        built += (self.copy.folder / "python" / "specdec_native").glob("_core*.so")
        test.lines = self.places.of_traces(traces, built)
        self.recording.add(test)

    @functools.cached_property
    def places(self) -> Places:
        return Places()

    def compile(self, path: str) -> tuple[bool, str]:
        return self.copy.make(f"specdec_{path.split('/')[1]}" if path.endswith(".cpp") else "specdec")

    def original(self, path: str) -> dict[str, str]:
        if path not in self.originals:
            must("the tree cannot be built", self.compile(path))
            self.originals[path] = self.copy.objects(path)
        return self.originals[path]

    def run(self, mutant: Mutant) -> tuple[str, str]:
        """How it ended: invalid, equivalent, noticed or survived; and by what it was noticed, or how many tests ran."""
        folder = mutant.path.split("/")[1]
        if folder not in self.names:
            self.prepare(folder)
        before = self.original(mutant.path)
        tests = self.recording.tests_of(mutant.path, mutant.line, self.names[folder])
        with self.copy.changed(mutant):
            ok, out = self.compile(mutant.path)
            if not ok:
                return "invalid", compile_error(out)
            if before and before == self.copy.objects(mutant.path):
                return "equivalent", ""
            chosen = first_of([test for test in tests if test.is_python or self.with_cpp], self.seconds)
            for test in chosen:
                if not test.is_python:
                    ok, out = self.copy.make(pathlib.Path(test.command[0]).name)
                    if not ok:
                        return "invalid", compile_error(out)
                    ok, out = self.copy.program(test, max(LEAST_LIMIT, 10 * test.seconds))
                    if not ok:
                        return "noticed", f"{test.name}: {failure(out)}"
            files = [test for test in chosen if test.is_python]
            if files:
                ok, out = self.copy.make("specdec", "_core")
                if not ok:
                    return "invalid", compile_error(out)
                seconds = sum(max(LEAST_LIMIT, 10 * test.seconds) for test in files)
                ok, out = self.copy.pytest([test.name for test in files], seconds)
                if not ok:
                    return "noticed", f"pytest: {failure(out)}"
        return "survived", f"{len(chosen)} of {len(tests)} tests"


def first_of(tests: Sequence[OneTest], seconds: float) -> list[OneTest]:
    """As many as end within this time."""
    chosen = []
    for test in tests:
        if test.seconds <= seconds:
            chosen.append(test)
            seconds -= test.seconds
    return chosen


def compile_error(out: str) -> str:
    return next((line.strip() for line in out.splitlines() if "error" in line), "")[:160]


def failure(out: str) -> str:
    words = ("FAILED", "took more")
    lines = out.strip().splitlines()
    return next((line.strip() for line in lines if any(word in line for word in words)), "".join(lines[-1:]))[:160]


def explanations() -> dict[tuple[str, str, str], str]:
    """explained.txt: paragraphs of a path, "- " and the line, "+ " and the changed line, and the reason."""
    explained = {}
    text = (pathlib.Path(__file__).parent / "explained.txt").read_text(encoding="utf-8")
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if len(lines) >= 4:
            path, old, new, *reason = lines
            explained[path, old.removeprefix("- ").strip(), new.removeprefix("+ ").strip()] = " ".join(reason)
    return explained


def survivors(results: pathlib.Path) -> list[Mutant]:
    last = {}
    for line in results.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        last[Mutant(one["path"], one["line"], one["old"], one["new"])] = one["result"]
    return [mutant for mutant, result in last.items() if result == "survived"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files and folders in cpp")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="so many of the order are passed over")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cpp-only", action="store_true", help="without the Python tests")
    parser.add_argument("--python-only", action="store_true", help="without the C++ tests")
    parser.add_argument("--seconds", type=float, default=1e9, help="of tests, at most, for each change")
    parser.add_argument("--no-headers", action="store_true", help="a header may take minutes to compile")
    parser.add_argument("--again", action="store_true", help="only the survivors in --results")
    parser.add_argument("--as-copied", action="store_true", help="the copy is not brought up to date")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no other one afterwards")
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER / "results.jsonl")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the change is undone
    copy = Copy(FOLDER / "tree", options.jobs)
    if not options.as_copied:
        copy.update()
    paths = [copy.folder / path.relative_to(ROOT) for path in sources(options.files)]
    order = in_random_order([mutant for path in paths for mutant in mutants_of(path, copy.folder)], options.seed)
    if options.again:
        order = survivors(options.results)
    print(f"{len(order)} possible changes", flush=True)
    order = [mutant for mutant in order if not (options.no_headers and mutant.path.endswith(".h"))]
    explained, counts, begin = explanations(), Counter[str](), time.monotonic()
    trials = Trials(copy, Recording(FOLDER / "recording.json", copy.folder), not options.cpp_only, options.seconds)
    trials.with_cpp = not options.python_only
    for mutant in order[options.skip :]:
        tried = counts["noticed"] + counts["survived"] + counts["explained"]
        if tried == options.count or time.monotonic() > begin + 60 * options.minutes:
            break
        result, by = trials.run(mutant)
        if result == "survived" and (mutant.path, mutant.old.strip(), mutant.new.strip()) in explained:
            result = "explained"
        counts[result] += 1
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**vars(mutant), "result": result, "by": by}) + "\n")
        if result not in ("invalid", "equivalent"):
            print(f"{result:9} {mutant.shown()}{f'   [{by}]' if by else ''}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return int(counts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
