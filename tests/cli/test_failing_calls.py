"""The commands when the system fails them: every read, write, mapping and start of a thread of a command in turn.

A command does its work, or ends by itself with exit code 1 and a message; files of results are whole or not there.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import subprocess
from dataclasses import dataclass

import pytest

PROMPTS = '{"prompt": "import os", "max_tokens": 3, "seed": 1}\n{"prompt": "def f(", "max_tokens": 3, "seed": 2}\n'
COMMANDS = {  # {output}: a file that is written; the draft model is the smaller one
    "generate": "generate -m {model} -p import -n 4 -t 2 --seed 1",
    "generate without mappings": "generate -m {model} --no-mmap -p import -n 4 -t 2 --seed 1",
    "generate many": "generate -m {model} --prompts {prompts} --output {output} -t 2",
    "chat": "chat -m {model} -n 4 -t 2 --seed 1",
    "info": "info {model} --tensors",
    "perplexity": "perplexity {model} -f {text} -c 64 --chunks 2 -t 2",
    "quantize": "quantize {model} {output} -t 2",
}
READS = ("read", "fread", "pread")
FAULTS = [*[(call, errno.EIO) for call in READS], ("mmap", errno.ENOMEM), ("pthread_create", errno.EAGAIN)]
FAULTS += [("write", errno.ENOSPC), ("write", errno.EPIPE), ("pwrite", errno.ENOSPC), ("pwrite", errno.EIO)]


@dataclass
class Ended:
    code: int
    stdout: str
    stderr: str
    output: bytes | None  # the file


class Commands:
    def __init__(self, specdec: pathlib.Path, model: pathlib.Path, folder: pathlib.Path) -> None:
        self._specdec, self._folder = specdec, folder
        self._places = {name: folder / name for name in ("prompts", "output", "text")} | {"model": model}
        self._places["prompts"].write_text(PROMPTS)
        self._places["text"].write_text("import os\n" * 60)

    def run(self, command: str, **environment: str) -> Ended:
        for path in self._folder.glob("output*"):
            path.unlink()
        arguments = [word.format_map(self._places) for word in COMMANDS[command].split()]
        result = subprocess.run(
            [self._specdec, *arguments],
            input=b"hello",
            capture_output=True,
            timeout=120,
            env=os.environ | environment,
            check=False,
        )
        output = self._places["output"]
        written = output.read_bytes() if output.exists() else None
        if command == "generate many" and written is not None:  # without times
            results = [json.loads(line) for line in written.splitlines()]
            written = str([(result["index"], result["text"]) for result in results]).encode()
        lines = result.stdout.decode().splitlines(keepends=True)
        shown = "".join(line for line in lines if not line.startswith("Huge pages"))  # unknown where the system does not tell
        return Ended(result.returncode, shown, result.stderr.decode(), written)


@pytest.fixture(scope="module")
def shim(specdec: pathlib.Path) -> pathlib.Path:
    path = specdec.parent / "tests" / "cli" / "failing_calls.so"
    if not path.exists():
        pytest.skip(f"{path} is not built: glibc only, without sanitizers")
    return path


def chosen(total: int) -> list[int]:
    """Of calls 1 to total: the first and the last ones, and ever fewer in between."""
    places = {*range(1, 5), *range(total - 5, total + 1), *(2**i for i in range(30))}
    return sorted(place for place in places if 1 <= place <= total)


@pytest.mark.parametrize("command", COMMANDS)
def test_any_call_fails(
    command: str, specdec: pathlib.Path, shim: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    commands = Commands(specdec, draft_path, tmp_path)
    sound = commands.run(command)
    assert sound.code == 0, sound.stderr
    num_failed = 0
    for call, error in FAULTS:
        count = tmp_path / "count"
        faults = {"LD_PRELOAD": str(shim), "FAULT_CALL": call, "FAULT_ERRNO": str(error), "FAULT_COUNT": str(count)}
        assert commands.run(command, **faults, FAULT_AT="0").stdout == sound.stdout
        for at in chosen(int(count.read_text())):
            ended = commands.run(command, **faults, FAULT_AT=str(at))
            where = f"{command}: {call} number {at} fails with {errno.errorcode[error]}: {ended}"
            assert ended.code in (0, 1), where
            if ended.code == 1:
                num_failed += 1
                assert ended.stderr.splitlines()[-1].startswith(f"specdec {command.split()[0]}: "), where
                assert ended.output in (None, sound.output), where
            elif (call, error) == ("write", errno.EPIPE):
                assert sound.stdout.startswith(ended.stdout), where
            else:
                assert (ended.stdout, ended.output) == (sound.stdout, sound.output), where
    assert num_failed >= 3
