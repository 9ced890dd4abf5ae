"""Which small changes ("mutants") of C++ files pass all tests of their area (make mutants).

    python tests/mutants/run.py cpp/sampling cpp/speculative/decoder.cpp [--count 20] [--seed 1] [--cpp-only]

universalmutator makes the changes, by cpp.rules: another operator, another number, a condition that is negated or
false, a statement left out. --seed chooses --count of them that compile to other code, the same every time, spread over
lines. Each is made in a copy of the working tree, build/mutants, never in the tree itself. There the area's C++ tests
are built and run, and if they pass, its Python tests (AREAS). A change that fails a test, or makes one take ten times
as long, is noticed; one that passes all is a survivor: write a test that fails with it, or explain in explained.txt why
no test can. Ends with status 1 if there is a survivor without an explanation. Takes a minute or so for each.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "build" / "mutants"
MEMORY = 16 << 30  # bytes of address space that a test may use
LEAST_LIMIT = 60.0  # seconds


@dataclass(frozen=True)
class Area:
    """Tests of a folder of cpp, the quickest first: folders of tests for ctest; files or folders for pytest."""

    cpp: Sequence[str]
    python: Sequence[str]


AREAS = {
    "sampling": Area(
        ["sampling", "speculative"],
        [
            "tests/sampling",
            *(f"tests/engine/test_{name}.py" for name in ("token_rules", "top_logprobs", "verification", "lossless")),
        ],
    ),
    "speculative": Area(["speculative", "engine"], ["tests/speculative", "tests/engine"]),
    "engine": Area(["engine", "server"], ["tests/engine", "tests/bindings", "tests/server"]),
    "server": Area(["server"], ["tests/server"]),
    "disk_cache": Area(
        ["disk_cache", "engine"], ["tests/engine/test_prefix_cache.py", "tests/engine/test_auto_cache.py"]
    ),
}


@dataclass(frozen=True)
class Mutant:
    path: str  # from ROOT
    line: int  # from 1
    old: str
    new: str

    def shown(self) -> str:
        return f"{self.path}:{self.line}: {self.old.strip()}  ==>  {self.new.strip()}"


# ---- Making them


def mutants_of(path: pathlib.Path) -> list[Mutant]:
    from universalmutator.mutator import mutants_regexp

    source = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rules = pathlib.Path(__file__).parent / "cpp.rules"
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutants_regexp(source, ruleFiles=[str(rules)], ignorePatterns=[], ignoreStringOnly=True)
    name = path.relative_to(ROOT).as_posix()
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
            configure = ["cmake", "--preset", "default", "--log-level=WARNING"]
            configure += ["-DSPECDEC_UNITY=OFF", "-DSPECDEC_KERNELS=native"]  # tests run those of every ISA
            must("the copy cannot be configured", self.run(configure, 3600))

    def run(
        self, command: Sequence[str], seconds: float, environment: dict[str, str] | None = None
    ) -> tuple[bool, str]:
        """Whether it succeeded, and what it printed. All that it started ends with it."""
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
            out, _ = process.communicate(timeout=seconds)
            return process.returncode == 0, out
        except subprocess.TimeoutExpired:
            return False, f"took more than {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def make(self, *targets: str) -> tuple[bool, str]:
        return self.run(["cmake", "--build", str(self.build), "-j", str(self.jobs), "--target", *targets], 3600)

    def objects(self, path: str) -> dict[str, str]:
        """What a source file was compiled to; of a header, all of its folder's."""
        source = pathlib.PurePath(path)
        name = f"{source.name}.o" if source.suffix == ".cpp" else "*.o"
        found = sorted((self.build / "cpp" / source.parts[1]).rglob(name))
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}

    def ctest(self, folder: str, seconds: float) -> tuple[bool, str]:
        command = ["ctest", "--test-dir", str(self.build / "tests" / folder), "--stop-on-failure", "-j", str(self.jobs)]
        # Not what is run on other processors.
        command += ["-E", "_arm|_without_f16c|_share_no_code", "--output-on-failure", "--no-tests=error"]
        return self.run([*command, "--timeout", f"{seconds:.0f}"], 4 * seconds, self.of_tests)

    def pytest(self, path: str, seconds: float) -> tuple[bool, str]:
        command = [str(self.folder / ".venv" / "bin" / "python"), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        return self.run([*command, path], seconds, self.of_tests)

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


class Trial:
    def __init__(self, copy: Copy, area: Area, with_python: bool) -> None:
        self.copy, self.area, self.with_python = copy, area, with_python
        self.limits: dict[str, float] = {}  # seconds
        self.originals: dict[str, dict[str, str]] = {}

    def prepare(self) -> None:
        """All tests pass without a change; with one they may take ten times as long."""
        for folder in self.area.cpp:
            must(f"tests/{folder} cannot be built", self.copy.make(f"tests/{folder}/all"))
            self.limits[folder] = self.timed(folder, self.copy.ctest)
        if self.with_python:
            must("the program cannot be built", self.copy.make("specdec", "_core", "test_programs"))
            for path in self.area.python:
                self.limits[path] = self.timed(path, self.copy.pytest)

    def timed(self, what: str, test: Callable[[str, float], tuple[bool, str]]) -> float:
        begin = time.monotonic()
        must(f"{what} fails without any change", test(what, 3600))
        return max(LEAST_LIMIT, 10 * (time.monotonic() - begin))

    def original(self, path: str) -> dict[str, str]:
        if path not in self.originals:
            must("the tree cannot be built", self.copy.make(f"tests/{self.area.cpp[0]}/all"))
            self.originals[path] = self.copy.objects(path)
        return self.originals[path]

    def run(self, mutant: Mutant) -> tuple[str, str]:
        """How it ended: invalid, equivalent, noticed or survived; and by what it was noticed."""
        before = self.original(mutant.path)
        with self.copy.changed(mutant):
            ok, out = self.copy.make(f"tests/{self.area.cpp[0]}/all")
            if not ok:
                return "invalid", compile_error(out)
            if before and before == self.copy.objects(mutant.path):
                return "equivalent", ""
            for folder in self.area.cpp:
                ok, out = self.copy.make(f"tests/{folder}/all")
                if not ok:
                    return "invalid", compile_error(out)
                ok, out = self.copy.ctest(folder, self.limits[folder])
                if not ok:
                    return "noticed", f"ctest {folder}: {failure(out)}"
            if self.with_python:
                ok, out = self.copy.make("specdec", "_core")
                if not ok:
                    return "invalid", compile_error(out)
                for path in self.area.python:
                    ok, out = self.copy.pytest(path, self.limits[path])
                    if not ok:
                        return "noticed", f"{path}: {failure(out)}"
        return "survived", ""


def compile_error(out: str) -> str:
    return next((line.strip() for line in out.splitlines() if "error" in line), "")[:160]


def failure(out: str) -> str:
    words = ("FAILED", "***Failed", "***Timeout", "***Exception", "took more")
    return next((line.strip() for line in out.splitlines() if any(word in line for word in words)), "failed")[:160]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files and folders in cpp")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="so many of the order are passed over")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cpp-only", action="store_true", help="without the Python tests")
    parser.add_argument("--ctest", nargs="+", metavar="FOLDER", help="these folders of C++ tests instead of the area's")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no other one afterwards")
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER / "results.jsonl")
    options = parser.parse_args()
    order = in_random_order([mutant for path in sources(options.files) for mutant in mutants_of(path)], options.seed)
    print(f"{len(order)} possible changes", flush=True)
    copy = Copy(FOLDER / "tree", options.jobs)
    copy.update()
    explained, counts, begin = explanations(), Counter[str](), time.monotonic()
    trials: dict[str, Trial] = {}
    for mutant in order[options.skip :]:
        tried = counts["noticed"] + counts["survived"] + counts["explained"]
        if tried == options.count or time.monotonic() > begin + 60 * options.minutes:
            break
        name = pathlib.PurePath(mutant.path).parts[1]
        if name not in trials:
            area = AREAS.get(name, Area([name], [f"tests/{name}"]))
            area = replace(area, cpp=options.ctest or area.cpp)
            trials[name] = Trial(copy, area, not options.cpp_only)
            trials[name].prepare()
        result, by = trials[name].run(mutant)
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
