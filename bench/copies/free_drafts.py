"""Drafts that need no model, on texts whose answers are known: `bench/copies/free_drafts.py TARGET.gguf`.

Prompts and answers are made from the standard library, tokenized by the target, and decoded in simulated time
(bench/copies/replay.cpp, -DSPECDEC_BENCH=ON), so the speed relative to plain decoding does not depend on this
machine. Prints for three cost curves of the target: speed over all tasks (of the slowest one), tokens per target
pass, accepted drafts. With --predictions, of answers of some 300 tokens: how many times as fast they come with a
prediction (of the slowest one), without and with copies of the prompt.
"""

from __future__ import annotations

import argparse
import random
import re

from bench.common.paths import ROOT
from bench.common.texts import LIBRARY
from bench.copies.replay import replay

import specdec_native as sd

FILES = ["heapq", "bisect", "textwrap", "fnmatch", "shlex", "queue", "sched", "statistics"]
FILES += ["argparse", "ast", "dataclasses", "configparser"]
COMMENTS = ["Checks the input first.", "This handles the common case.", "Returns early.", "Note the order here."]


def rename(text: str) -> tuple[str, str]:
    """The name in the text that occurs most often gets a new name."""
    names = {name for pair in re.findall(r"\bdef (\w+)|\bself\.(\w+)", text) for name in pair if len(name) > 3}
    name = max(sorted(names), key=lambda n: len(re.findall(rf"\b{n}\b", text)))
    answer = re.sub(rf"\b{name}\b", "new_" + name[::-1], text)
    return (
        f"Return this file with {name} renamed to new_{name[::-1]}:\n```python\n{text}\n```\n",
        f"```python\n{answer}\n```\n",
    )


def comment(text: str) -> tuple[str, str]:
    """Every twelfth line gets a comment above it."""
    rng = random.Random(1)
    lines: list[str] = []
    for line in text.splitlines():
        if rng.random() < 1 / 12:
            lines.append(line[: len(line) - len(line.lstrip())] + "# " + rng.choice(COMMENTS))
        lines.append(line)
    return f"Add comments:\n```python\n{text}\n```\n", "```python\n" + "\n".join(lines) + "\n```\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="a model whose tokenizer is used")
    parser.add_argument("--predictions", action="store_true")
    arguments = parser.parse_args()
    gen = sd.Generator(arguments.target, n_ctx=64, repack=False)
    code = [(LIBRARY / f"{name}.py").read_text()[:12000] for name in FILES]
    prose = [path.read_text()[:12000] for path in sorted((ROOT / "docs").glob("*.md"))]
    kinds: dict[str, list[tuple[str, ...]]] = {
        "rename a function": [rename(text) for text in code],
        "add comments": [comment(text) for text in code],
        "code, continued": [(text[:1000], text[1000:]) for text in code],
        "English, continued": [(text[:500], text[500:]) for text in prose],
    }

    def ids(text: str) -> list[int]:
        pieces = [text[i : i + 5000] for i in range(0, len(text), 5000)]
        return [token for piece in pieces for token in gen.tokenize(piece)]

    rows: dict[str, list[tuple[str, ...]]] = {}
    if arguments.predictions:
        # The beginning has the docstring, which has nothing to rename.
        short = [(LIBRARY / f"{name}.py").read_text()[-900:-200] for name in FILES]
        named = [text for text in short if re.search(r"\bdef \w{4,}|\bself\.\w{4,}", text)]
        for kind, make, texts in (("rename a function", rename, named), ("add comments", comment, short)):
            tasks = [make(text) for text in texts]
            others = [answer for _, answer in tasks[1:] + tasks[:1]]
            halves = [
                answer[: len(answer) // 2] + other[len(other) // 2 :]
                for (_, answer), other in zip(tasks, others, strict=True)
            ]
            rows[f"{kind}: the answer"] = [(*task, task[1]) for task in tasks]
            rows[f"{kind}: the text"] = [(*task, text) for task, text in zip(tasks, texts, strict=True)]
            rows[f"{kind}: half right"] = [(*task, half) for task, half in zip(tasks, halves, strict=True)]
            rows[f"{kind}: wrong"] = [(*task, other) for task, other in zip(tasks, others, strict=True)]
            # In turn, so that the rule has just learnt what a right one is worth.
            rows[f"{kind}: right and wrong"] = [
                (*task, task[1] if i % 2 == 0 else other)
                for i, (task, other) in enumerate(zip(tasks, others, strict=True))
            ]
    else:
        rows.update(kinds)
    for kind, texts_of_tasks in rows.items():
        print(kind, flush=True)
        replay([ids(text) for text in task] for task in texts_of_tasks)


if __name__ == "__main__":
    main()
