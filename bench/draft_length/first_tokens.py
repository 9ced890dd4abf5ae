"""How fast the first 64 tokens of a process are, compared with the same text later: what "auto" must learn first.

python -m bench.draft_length.first_tokens [TARGET DRAFT] [--rounds 5] [--tokens 64]

Without files: the real pair (bench/common/real_models.py). Every round has two processes, without and with what an
earlier process learnt. Each generates one text greedily, without copies: first thing, then three times more. Its
first rate is divided by the median of the later ones, so that the speed of the machine hardly counts. Prints a
markdown table; it is in RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR

PROMPTS = [
    "Write a Python class for a bounded queue with put, get and len, and explain it.",
    "Explain how a hash table handles collisions, with an example.",
    "Write a C function that reverses a string in place, then its tests.",
    "What is the difference between a process and a thread? Answer in detail.",
    "Write a SQL schema for a library with books, authors and loans.",
]
LATER = 3


def rates(target: pathlib.Path, draft: pathlib.Path, prompt: str, tokens: int) -> list[float]:
    """Tokens per second of this text, in order. What was learnt stays when the Generator ends."""
    import specdec_native as sd

    with sd.Generator(target, draft, suffix=False) as gen:
        found = []
        for _ in range(1 + LATER):
            gen.chat([{"role": "user", "content": prompt}], max_tokens=tokens, temperature=0)
            found.append(gen.stats.tokens_per_second)
        return found


def share_of_later(files: list[pathlib.Path], prompt: str, tokens: int, kept: pathlib.Path) -> float:
    """What a fresh process prints."""
    command = [sys.executable, "-m", "bench.draft_length.first_tokens", *map(str, files)]
    command += ["--tokens", str(tokens), "--child", prompt]
    environment = os.environ | {"XDG_CACHE_HOME": str(kept)}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    first, *later = map(float, run.stdout.split())
    return first / statistics.median(later)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="TARGET DRAFT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--child", metavar="PROMPT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    files = arguments.files or [FOLDER / f"{name}.gguf" for name in PAIR]
    if arguments.child:
        print(*rates(files[0], files[1], arguments.child, arguments.tokens))
        return
    shares: dict[str, list[float]] = {"nothing": [], "an earlier process": []}
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder)
        for round_ in range(arguments.rounds):
            prompt, other = (PROMPTS[(round_ + i) % len(PROMPTS)] for i in range(2))
            if round_ == 0:
                share_of_later(files, other, arguments.tokens, kept / "kept")
            shares["nothing"].append(share_of_later(files, prompt, arguments.tokens, kept / f"fresh{round_}"))
            shares["an earlier process"].append(share_of_later(files, prompt, arguments.tokens, kept / "kept"))
    print(
        f"| learnt by | the first {arguments.tokens} tokens, of later ones (median) | least | most |\n|---|---|---|---|"
    )
    for name, found in shares.items():
        print(f"| {name} | {statistics.median(found):.3f} | {min(found):.3f} | {max(found):.3f} |")


if __name__ == "__main__":
    main()
