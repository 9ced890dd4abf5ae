"""Fixtures for all tests: the built binary, the bundled models, prompts from real source code."""

import os
import pathlib
import signal
import sysconfig
from collections.abc import Callable

import pytest
from tests.failing_calls import FailingCalls

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="session", autouse=True)
def signals_are_not_ignored() -> None:
    """A shell in the background, or nohup, starts programs with these signals ignored, and they would pass that on."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_kept_between_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What "auto" learns in one test would change the times of another, and the caches of this machine are the
    user's."""
    home = pathlib.Path.home()
    os.environ.setdefault("CCACHE_DIR", os.environ.get("XDG_CACHE_HOME", str(home / ".cache")) + "/ccache")
    folder = tmp_path_factory.mktemp("cache")
    (folder / "specdec").write_text("not a folder: nothing is kept")
    os.environ["XDG_CACHE_HOME"] = str(folder)


@pytest.fixture(scope="session", autouse=True)
def no_devices() -> None:
    """Without `make test-gpu`, which names the folder of the modules, no test runs on a device by accident."""
    os.environ.setdefault("SPECDEC_DEVICE_MODULES", os.devnull)


@pytest.fixture(scope="session")
def specdec() -> pathlib.Path:
    """The native command-line binary of the build tree (SPECDEC_BINARY names another)."""
    path = pathlib.Path(os.environ.get("SPECDEC_BINARY", ROOT / "build" / "default" / "specdec"))
    assert path.exists(), f"{path} is missing: run `make build` first"
    return path


@pytest.fixture(scope="session")
def built(specdec: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """What the build makes for the tests, by its name there: "cli/failing_calls.so". Not every system and sanitizer
    has all."""

    def find(name: str) -> pathlib.Path:
        path = specdec.parent / "tests" / name
        if not path.exists():
            pytest.skip(f"{path} is not built")
        return path

    return find


@pytest.fixture
def failing_calls(built: Callable[[str], pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> FailingCalls:
    library = built("cli/failing_calls.so")  # glibc only, without sanitizers
    return FailingCalls(library, tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="session")
def target_path() -> pathlib.Path:
    return ROOT / "models" / "stdlib-target-f16.gguf"


@pytest.fixture(scope="session")
def draft_path() -> pathlib.Path:
    return ROOT / "models" / "stdlib-draft-f16.gguf"


@pytest.fixture(scope="session")
def library_prompts() -> list[str]:
    """Beginnings of Python source: 30 places in the interpreter's own standard library, each cut inside a line."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    names = (
        "argparse ast bisect calendar cmd code copy csv dis doctest enum fileinput fractions functools "
        "getopt glob heapq"
    )
    names += (
        " inspect json/decoder keyword linecache mailbox numbers optparse pprint queue random sched shlex "
        "string tarfile"
    )
    prompts = []
    for i, name in enumerate(names.split()):
        path = folder / f"{name}.py"
        if path.exists():
            text = path.read_text(encoding="utf-8")
            start = (len(text) // 3 + 97 * i) % (len(text) // 2)
            prompts.append(text[start : start + 120 + 10 * i].rstrip())
    assert len(prompts) >= 30 and all(prompts)
    return prompts
