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
from tests.failing_calls import FailingCalls, chosen

PROMPTS = '{"prompt": "import os", "max_tokens": 3, "seed": 1}\n{"prompt": "def f(", "max_tokens": 3, "seed": 2}\n'
KEPT = (
    "generate from a corpus",
    "generate with a prompt to keep",
)  # files that save time: without them the text is the same
COMMANDS = {  # {output}: a file that is written; the draft model is the smaller one
    "generate": "generate -m {model} -p import -n 4 -t 2 --seed 1",
    "generate without mappings": "generate -m {model} --no-mmap -p import -n 4 -t 2 --seed 1",
    "generate many": "generate -m {model} --prompts {prompts} --output {output} -t 2",
    "generate with a prompt to keep": "generate -m {model} -p import -n 4 -t 2 --seed 1 --prompt-cache {output}",
    "generate with a prompt that was kept": "generate -m {model} -p import -n 4 -t 2 --seed 1 --prompt-cache {kept}",
    "generate from a corpus": "generate -m {model} -md suffix --draft-corpus {corpus} -p import -n 4 -t 2 --seed 1",
    "chat": "chat -m {model} -n 4 -t 2 --seed 1",
    "info": "info {model} --tensors",
    "perplexity": "perplexity {model} -f {text} -c 64 --chunks 2 -t 2",
    "quantize": "quantize {model} {output} -t 2",
}
FAULTS = [(call, errno.EIO) for call in ("read", "fread", "pread", "pwrite", "fsync", "rename")]
FAULTS += [("mmap", errno.ENOMEM), ("pthread_create", errno.EAGAIN), ("write", errno.EPIPE)]
FAULTS += [(call, error) for call in ("write", "pwrite") for error in (errno.ENOSPC, errno.EDQUOT)]


@dataclass
class Ended:
    code: int
    stdout: str
    stderr: str
    output: bytes | None  # the file


class Commands:
    def __init__(self, specdec: pathlib.Path, model: pathlib.Path, folder: pathlib.Path) -> None:
        self._specdec, self._folder = specdec, folder
        self._places = {name: folder / name for name in ("prompts", "output", "text", "kept", "corpus")} | {
            "model": model
        }
        self._places["prompts"].write_text(PROMPTS)
        for name in ("text", "corpus"):
            self._places[name].write_text("import os\n" * 60)

    def run(self, command: str, **environment: str) -> Ended:
        output = self._folder / ("corpus.index" if "{corpus}" in COMMANDS[command] else "output")
        for path in self._folder.glob(f"{output.name}*"):
            path.unlink()
        arguments = [word.format_map(self._places) for word in COMMANDS[command].split()]
        result = subprocess.run(
            [self._specdec, *arguments],
            input=b"hello",
            capture_output=True,
            timeout=600,
            env=os.environ | environment,
            check=False,
        )
        written = output.read_bytes() if output.exists() else None
        if command == "generate many" and written is not None:  # without times
            results = [json.loads(line) for line in written.splitlines()]
            written = str([(result["index"], result["text"]) for result in results]).encode()
        lines = result.stdout.decode().splitlines(keepends=True)
        shown = "".join(
            line for line in lines if not line.startswith("Huge pages")
        )  # unknown where the system does not tell
        return Ended(result.returncode, shown, result.stderr.decode(), written)


@pytest.mark.parametrize("command", COMMANDS)
def test_any_call_fails(
    command: str, specdec: pathlib.Path, failing_calls: FailingCalls, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    commands = Commands(specdec, draft_path, tmp_path)
    sound = commands.run(command)
    assert sound.code == 0, sound.stderr
    num_failed = 0
    for call, error in FAULTS:
        assert commands.run(command, **failing_calls.environment(call, error, 0)).stdout == sound.stdout
        for at in chosen(failing_calls.count()):
            ended = commands.run(command, **failing_calls.environment(call, error, at))
            where = f"{command}: {call} number {at} fails with {errno.errorcode[error]}: {ended}"
            assert ended.code in (0, 1), where
            if ended.code == 1:
                num_failed += 1
                assert ended.stderr.splitlines()[-1].startswith(f"specdec {command.split()[0]}: "), where
                assert ended.output in (None, sound.output), where
            elif (call, error) == ("write", errno.EPIPE):
                assert sound.stdout.startswith(ended.stdout), where
            else:
                assert ended.stdout == sound.stdout, where
                assert ended.output == sound.output or (ended.output is None and command in KEPT), where
    assert num_failed >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_any_call_is_interrupted(
    command: str, specdec: pathlib.Path, failing_calls: FailingCalls, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    commands = Commands(specdec, draft_path, tmp_path)
    sound = commands.run(command)
    for call in ("read", "pread", "write", "pwrite"):
        commands.run(command, **failing_calls.environment(call, errno.EINTR, 0))
        for at in chosen(failing_calls.count(), ends=3):
            ended = commands.run(command, **failing_calls.environment(call, errno.EINTR, at))
            where = f"{command}: {call} number {at}: {ended}"
            assert (ended.code, ended.stdout, ended.output) == (0, sound.stdout, sound.output), where
