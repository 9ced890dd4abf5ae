"""The engines that are compared: each generates one text in a process of its own and says how long decoding took."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from bench.common.paths import ROOT

END_OF_TEXT = 0  # of the bundled models
CONTEXT = 512
SAMPLING = {"--top-k": "40", "--top-p": "0.95", "--min-p": "0.05"}
VENV = ROOT / "build" / "peers-venv"
PACKAGES = {
    "llama-cpp-python": ["llama-cpp-python==0.3.36"],
    "openvino": ["openvino-genai==2026.4.1.0"],
    "transformers": ["torch==2.13.0", "transformers==5.23.0", "accelerate==1.15.0", "gguf==0.19.0"],
}


class Unavailable(Exception):
    """Why a row is left out."""


@dataclass(frozen=True)
class Text:
    """The task of one process."""

    target: pathlib.Path
    draft: pathlib.Path | None
    num_draft_tokens: int | str  # 0 without speculation; "auto" for ours
    prompt: pathlib.Path
    tokens: int
    temperature: float
    seed: int
    threads: int

    def flags(self) -> list[object]:
        """As llama.cpp's programs and ours take them."""
        model = ["-m", self.target, "-f", self.prompt, "-c", CONTEXT, "-t", self.threads]
        sampling = ["-s", self.seed, "--temp", self.temperature, *(part for flag in SAMPLING.items() for part in flag)]
        return [*model, "-n", self.tokens, *sampling]


@dataclass(frozen=True)
class Timing:
    tokens: int
    seconds: float
    drafted: int = 0
    accepted: int = 0
    draft_seconds: float = 0.0  # if the engine reports it
    target_seconds: float = 0.0
    target_calls: int = 0


Engine = Callable[[Text], Timing]


def output_of(*command: object) -> str:
    finished = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if finished.returncode != 0:
        last = (finished.stderr.strip() or finished.stdout.strip()).splitlines()[-1:] or ["no message"]
        raise Unavailable(f"{pathlib.Path(str(command[0])).name} failed: {last[0]}")
    return finished.stdout + "\n" + finished.stderr


def number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise Unavailable(f"no {pattern!r} in the output")
    return float(match.group(1))


class LlamaCpp:
    """llama.cpp's own programs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def program(self, name: str, text: Text, *options: object) -> str:
        if not (self.folder / name).exists():
            raise Unavailable(f"{self.folder / name} is missing: cmake --preset default -DSPECDEC_PEERS=ON, then make")
        return output_of(self.folder / name, *text.flags(), "--ignore-eos", *options)

    def plain(self, text: Text) -> Timing:
        out = self.program("llama-completion", text, "-no-cnv", "--no-display-prompt", "--perf")
        passes = int(number(r"\beval time = .*?/ +(\d+) runs", out))
        sampling = number(r"sampling time = +([\d.]+) ms", out)
        return Timing(passes, (number(r"(?<!prompt )eval time = +([\d.]+) ms", out) + sampling) / 1e3)

    def benchmark(self, text: Text) -> Timing:
        """llama-bench: no prompt, no sampling."""
        flags = ["-m", text.target, "-p", 0, "-n", text.tokens, "-t", text.threads, "-r", 1, "-o", "json"]
        out = output_of(self.folder / "llama-bench", *flags)
        return Timing(text.tokens, text.tokens / number(r'"avg_ts": ([\d.]+)', out))

    def speculative(self, text: Text, *options: object) -> Timing:
        out = self.program("llama-speculative-simple", text, *options)
        tokens, drafted, accepted = (
            int(number(rf"{name} *= *(\d+)", out)) for name in ("n_predict", "n_drafted", "n_accept")
        )
        return Timing(tokens, number(r"decoded +\d+ tokens in +([\d.]+) seconds", out), drafted, accepted)

    def with_draft(self, text: Text) -> Timing:
        drafts = ["-md", text.draft, "--spec-draft-n-max", text.num_draft_tokens]
        return self.speculative(text, "--spec-type", "draft-simple", *drafts)

    def lookup(self, text: Text) -> Timing:
        """N-gram lookup."""
        size = ["--spec-ngram-simple-size-n", 3, "--spec-ngram-simple-size-m", text.num_draft_tokens]
        return self.speculative(text, "--spec-type", "ngram-simple", *size)


class Ours:
    def __init__(self, binary: pathlib.Path) -> None:
        self.binary = binary

    def generate(self, text: Text, draft: pathlib.Path | str | None = None) -> Timing:
        command = [self.binary, "generate", "--json", *text.flags(), "-l", f"{END_OF_TEXT}-inf"]
        command += ["--verification", "block"]  # with "auto" lengths and a seed, the default is "invariant"
        command += ["-md", draft, "-k", text.num_draft_tokens] if draft is not None else ["-k", 0]
        out = output_of(*command)
        stats = json.loads(next(line for line in reversed(out.splitlines()) if '"stats"' in line))["stats"]
        return Timing(**{name: stats[name] for name in Timing.__annotations__})

    def with_draft(self, text: Text) -> Timing:
        return self.generate(text, text.draft)

    def ngram(self, text: Text) -> Timing:
        return self.generate(text, "ngram")


def python_peer(name: str) -> Engine:
    """A script run by the Python of build/peers-venv; it gets a task as JSON and prints a timing."""

    def run(text: Text) -> Timing:
        python = VENV / "bin" / "python"
        if not python.exists():
            raise Unavailable(f"not installed: python -m bench.peers.peers --install {' '.join(PACKAGES)}")
        given = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in asdict(text).items()}
        out = output_of(
            python,
            pathlib.Path(__file__).parent / f"peer_{name}.py",
            json.dumps({**given, "context": CONTEXT, "end_of_text": END_OF_TEXT}),
        )
        return Timing(**json.loads(next(line for line in reversed(out.splitlines()) if line.startswith('{"tokens"'))))

    return run


def install(names: Iterable[str]) -> None:
    if not VENV.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    for name in names:
        print(f"installing {name} into {VENV}", file=sys.stderr, flush=True)
        command = ["nice", VENV / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES[name]]
        if subprocess.run([str(part) for part in command]).returncode != 0:
            print(f"could not install {name}: its rows will be left out", file=sys.stderr)
