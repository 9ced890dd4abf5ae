"""The two programs that download: each runs a model by its name in a process of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass

from tests.hub.fake_hub import FakeHub

CLIENTS = ["binary", "python"]
CODE = """
import sys, specdec_native as sd
target, draft = sys.argv[1], sys.argv[2] or None
try:
    with sd.Generator(target, draft, n_ctx=64) as gen:
        print(gen.generate("in the", max_tokens=4, temperature=0).text, end="")
except (sd.Error, ImportError, ValueError) as error:
    print(error, file=sys.stderr)
    sys.exit(1)
"""


@dataclass
class Client:
    """Runs a model by its name in a process of its own."""

    kind: str
    specdec: pathlib.Path
    environment: dict[str, str]
    cache: pathlib.Path

    def command(self, target: str, draft: str = "") -> list[str]:
        if self.kind == "python":
            return [sys.executable, "-c", CODE, target, draft]
        given = ["-hf", target.removeprefix("hf:"), *(["-hfd", draft.removeprefix("hf:")] if draft else [])]
        return [
            str(self.specdec),
            "generate",
            *given,
            "-c",
            "64",
            "-p",
            "in the",
            "-n",
            "4",
            "--temp",
            "0",
            "--no-stats",
        ]

    def start(self, target: str, **environment: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command(target), env=self.environment | environment, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, target: str, draft: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        command = self.command(target, draft)
        return subprocess.run(command, env=self.environment | environment, capture_output=True, text=True, timeout=100)

    def text(self, target: str, draft: str = "", **environment: str) -> str:
        result = self.run(target, draft, **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def error(self, target: str, **environment: str) -> str:
        result = self.run(target, **environment)
        assert result.returncode == 1, (result.returncode, result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
        return result.stderr.splitlines()[-1]


def client_of(kind: str, specdec: pathlib.Path, hub: FakeHub, home: pathlib.Path) -> Client:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_", "HUGGING"))}
    no_proxy = {"no_proxy": "*", "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment = kept | no_proxy | {"HOME": str(home), "HF_HOME": str(home / "hf"), "HF_ENDPOINT": hub.endpoint}
    return Client(kind, specdec, environment, home / "hf" / "hub")
