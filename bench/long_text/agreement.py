"""How often a draft model that reads a window of a long text proposes what its target finds most likely.

python -m bench.long_text.agreement [TARGET DRAFT] [--tokens 3072] [--windows 256 512 1024] [--stretches 2]

Without files: the real pair (bench/common/real_models.py). Ten texts: code, prose, a conversation, passages with
questions about them, German and French. Nothing is generated: both models score each text (`specdec serve`, completions
with echo), the draft also stretches of 128 tokens in windows, the last of them at the end. A window is as long as
it is on average while it slides (cpp/speculative/draft_window.h): seven eighths of its size. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import pathlib
import random
import re
import statistics
import subprocess
import textwrap
import urllib.request
from collections.abc import Iterator
from importlib import import_module

from bench.common.paths import BUILD, ROOT
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import LIBRARY

STRETCH = 128
LICENCE = pathlib.Path("/usr/share/common-licenses/MPL-2.0")
TUTOR = "/usr/share/vim/vim90/tutor/tutor.{}.utf-8"


def documented(modules: list[str]) -> list[tuple[str, str]]:
    """(name, docstring) of the functions of modules, in a fixed random order."""
    found = []
    for name in modules:
        for member, value in sorted(vars(import_module(name)).items()):
            doc = inspect.getdoc(value) if inspect.isroutine(value) or inspect.isclass(value) else None
            if doc and 200 < len(doc) < 1500 and not member.startswith("_"):
                found.append((f"{name}.{member}", doc))
    random.Random(1).shuffle(found)
    return found


def conversation() -> str:
    turns = ["<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"]
    for name, doc in documented(["itertools", "functools", "asyncio", "shutil", "statistics", "subprocess", "typing"]):
        turns.append(f"<|im_start|>user\nWhat does {name} do in Python?<|im_end|>\n")
        turns.append(f"<|im_start|>assistant\n{doc}<|im_end|>\n")
    return "".join(turns)


def retrieval() -> str:
    """Passages, then a question about each, answered with its first sentences."""
    passages = documented(["pathlib", "collections", "os", "random", "textwrap", "tempfile", "datetime"])
    blocks = []
    for begin in range(0, len(passages), 8):
        group = passages[begin : begin + 8]
        blocks += [f"Document {name}:\n{doc}\n" for name, doc in group]
        blocks += [f"Question: what do the documents say about {name}?\nAnswer: {doc[:200]}\n" for name, doc in group]
    return "\n".join(blocks)


def texts() -> dict[str, str]:
    library = {name: (LIBRARY / f"{name}.py").read_text(encoding="utf-8") for name in ("argparse", "tarfile", "ast")}
    kernel = [ROOT / "cpp" / "engine" / f"{name}.cpp" for name in ("scheduler", "executor", "generator")]
    pages = [ROOT / "docs" / f"{name}.md" for name in ("losslessness", "performance", "mxfp6")]
    return {
        "Python: argparse": library["argparse"],
        "Python: tarfile": library["tarfile"],
        "Python: ast": library["ast"],
        "C++: this engine": "".join(path.read_text() for path in kernel),
        "Markdown: these docs": "".join(path.read_text() for path in pages),
        "prose: a licence": LICENCE.read_text(),
        "conversation": conversation(),
        "retrieval": retrieval(),
        "German": pathlib.Path(TUTOR.format("de")).read_text(),
        "French": pathlib.Path(TUTOR.format("fr")).read_text(),
    }


class Server:
    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, path: str, **body: object) -> dict[str, object]:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=3600) as reply:
            answer: dict[str, object] = json.load(reply)
            return answer

    def tokens(self, text: str) -> list[int]:
        return self.ask("/tokenize", content=text)["tokens"]  # type: ignore[return-value]

    def likeliest(self, tokens: list[int]) -> list[str]:
        """The most likely token in the place of each but the first, "" there."""
        reply = self.ask("/v1/completions", model="any", prompt=tokens, echo=True, logprobs=1, max_tokens=0)
        places = reply["choices"][0]["logprobs"]["top_logprobs"]  # type: ignore[index]
        return [max(place, key=place.get) if place else "" for place in places]


@contextlib.contextmanager
def serving(program: pathlib.Path, model: pathlib.Path, context: int, threads: int) -> Iterator[Server]:
    command = [
        program,
        "serve",
        "-m",
        model,
        "-k",
        "0",
        "-c",
        context,
        "-t",
        threads,
        "--port",
        0,
        "-np",
        8,
        "--timeout",
        0,
    ]
    with subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"http://[\d.]+:\d+", line):
                    yield Server(found[0])
                    break
        finally:
            process.terminate()


def agreement(target: list[str], draft: list[str]) -> float:
    return statistics.fmean(a == b for a, b in zip(target, draft, strict=True))


def measure(
    program: pathlib.Path, pair: list[pathlib.Path], length: int, windows: list[int], stretches: int, threads: int
) -> None:
    begins = [length * i // stretches - STRETCH for i in range(1, stretches + 1)]
    servers = [serving(program, model, length + 8, threads) for model in pair]
    with servers[0] as target, servers[1] as draft:
        columns = ["all", *map(str, reversed(windows))]
        print("| text | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|", flush=True)
        rows = []
        for name, text in texts().items():
            tokens = target.tokens(text)[:length]
            if len(tokens) < length:
                raise SystemExit(f"{name}: {len(tokens)} tokens are fewer than {length}")
            likely, everything = target.likeliest(tokens), draft.likeliest(tokens)
            scores = []
            for window in [0, *reversed(windows)]:
                found = []
                for begin in begins:
                    end, first = begin + STRETCH, begin + STRETCH // 2 - window * 7 // 8
                    read = draft.likeliest(tokens[first:end])[begin - first :] if window else everything[begin:end]
                    found.append(agreement(likely[begin:end], read))
                scores.append(statistics.fmean(found))
            rows.append(scores)
            print(f"| {name} | " + " | ".join(f"{score:.3f}" for score in scores) + " |", flush=True)
        means = [statistics.fmean(column) for column in zip(*rows, strict=True)]
        print("| mean | " + " | ".join(f"**{mean:.3f}**" for mean in means) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=textwrap.dedent(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="TARGET DRAFT")
    parser.add_argument("--specdec", type=pathlib.Path, default=BUILD / "specdec")
    parser.add_argument("--stretches", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=3072, help="of each text")
    parser.add_argument("--windows", type=int, nargs="+", default=[256, 512, 1024])
    arguments = parser.parse_args()
    pair = arguments.files or [FOLDER / f"{name}.gguf" for name in PAIR]
    measure(arguments.specdec, pair, arguments.tokens, arguments.windows, arguments.stretches, arguments.threads)


if __name__ == "__main__":
    main()
