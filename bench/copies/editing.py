"""Tokens per second on editing prompts: how much drafts that are copied from the text add to a draft model.

python -m bench.copies.editing [--tokens 320] [--prompts chat] [--only NAME ...] [--llama | --alone MODEL.gguf |
    --pair TARGET.gguf DRAFT.gguf] [--chat-template NAME]

Eight requests to return a piece of the standard library changed, greedy, or the questions of prompts/chat.json, or,
for models that know no chat, pieces of the standard library followed by their first lines ("--prompts code"). All
rows run in one process and alternate; only decoding is timed. Every prompt runs once, because suffix decoding
remembers its answer. The rows have the same output by construction, which is checked. --llama adds llama.cpp's own
programs (see bench/real_pair/real_pair.py), a process for each generation. --alone: plain decoding and copies with
this target, without a draft model. --pair: another pair than that of bench/common/real_models.py.
"""

from __future__ import annotations

import ast
import json
import pathlib
import statistics
import sys
import tempfile
import textwrap
from typing import Literal

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, LIBRARY
from bench.real_pair.real_pair import Rows

import specdec_native as sd


def source(module: str, *names: str) -> str:
    """The functions or methods of that name in a file of the standard library."""
    text = (LIBRARY / f"{module}.py").read_text()
    nodes = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    pieces = (ast.get_source_segment(text, nodes[name], padded=True) for name in names)
    return "\n\n".join(textwrap.dedent(piece or "") for piece in pieces)


def without_docstrings(text: str) -> str:
    parts = text.split('"""')
    return "".join(parts[::2]) if len(parts) > 1 else text


def broken_json() -> str:
    rows = [
        {"name": name, "lines": 100 + 7 * i, "tested": i % 3 == 0}
        for i, name in enumerate(sorted(sys.stdlib_module_names)[40:56])
    ]
    return json.dumps(rows, indent=1).replace('"tested": false', "'tested': False").replace('"lines"', "lines", 3)


def edits() -> dict[str, str]:
    def request(what: str, code: str) -> str:
        return f"{what} Return all of it, and nothing else.\n\n```\n{code}\n```"

    methods = without_docstrings(source("queue", "join", "put", "get", "put_nowait"))
    heaps = without_docstrings(source("heapq", "_siftdown", "_siftup", "heappop", "heapreplace"))
    return {
        "rename a function": request(
            "Rename the function bisect_right to find_place.",
            source("bisect", "bisect_right", "insort_right", "bisect_left"),
        ),
        "rename a variable": request("Rename the variable pos to position.", heaps),
        "add docstrings": request("Add a short docstring to every function.", methods),
        "fix the JSON": request("Make this valid JSON.", broken_json()),
        "add type hints": request("Add type hints.", without_docstrings(source("shlex", "split", "join", "quote"))),
        "rename a parameter": request(
            "Rename the parameter pat to pattern.", source("fnmatch", "filter", "fnmatch", "fnmatchcase")
        ),
        "raise another error": request("Raise TypeError instead of ValueError everywhere.", methods),
        "add comments": request(
            "Add a comment above every if statement.", source("textwrap", "dedent", "shorten", "indent")
        ),
    }


def repeated_code() -> dict[str, str]:
    pieces = {
        "bisect": source("bisect", "bisect_right"),
        "heapq": without_docstrings(source("heapq", "_siftdown", "_siftup")),
        "queue": without_docstrings(source("queue", "put", "get")),
        "fnmatch": source("fnmatch", "filter", "fnmatchcase"),
        "shlex": without_docstrings(source("shlex", "join", "quote")),
        "textwrap": source("textwrap", "shorten", "indent"),
        "statistics": without_docstrings(source("statistics", "median_low", "median_high")),
        "calendar": source("calendar", "isleap", "leapdays", "weekday", "monthrange"),
    }
    return {name: f"{code}\n\n\n{code[: len(code) // 8]}" for name, code in pieces.items()}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=320)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompts", choices=["edits", "chat", "code"], default="edits")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these of the prompts")
    parser.add_argument("--llama", action="store_true")
    parser.add_argument("--alone", type=pathlib.Path)
    parser.add_argument("--pair", type=pathlib.Path, nargs=2, metavar=("TARGET", "DRAFT"))
    parser.add_argument("--chat-template", metavar="NAME", help="of a model that has none")
    parser.add_argument("--models", type=pathlib.Path, default=FOLDER)
    arguments = parser.parse_args()
    prompts = {"edits": edits, "chat": lambda: CHAT_PROMPTS, "code": repeated_code}[arguments.prompts]()
    if arguments.only:
        if unknown := sorted(set(arguments.only) - set(prompts)):
            parser.error(f"--only {unknown[0]!r}: one of {', '.join(prompts)}")
        prompts = {name: prompts[name] for name in arguments.only}
    files = (
        [arguments.alone] if arguments.alone else arguments.pair or [arguments.models / f"{name}.gguf" for name in PAIR]
    )
    target, *draft = map(str, files)

    def generator(draft: str, suffix: bool = True) -> sd.Generator:
        template = arguments.chat_template
        return sd.Generator(
            target, draft, suffix=suffix, n_ctx=4096, n_threads=arguments.threads, chat_template=template
        )

    text = generator("suffix")
    rows: dict[str, tuple[sd.Generator, int | Literal["auto"]]]
    if draft:
        both, model = generator(draft[0]), generator(draft[0], suffix=False)
        rows = {
            "plain": (model, 0),
            "suffix": (text, "auto"),
            "draft model": (model, "auto"),
            "both (default)": (both, "auto"),
        }
    else:
        both, plain = text, sd.Generator(target, n_ctx=4096, n_threads=arguments.threads)
        rows = {"plain": (plain, 0), "suffix": (text, "auto")}
    system = {"role": "system", "content": "You are a helpful assistant."}
    if arguments.prompts != "code":
        prompts = {
            name: text.apply_chat_template([system, {"role": "user", "content": it}]) for name, it in prompts.items()
        }
    peers = {}
    if arguments.llama:
        llama = Rows(arguments)
        simple = ["--spec-type", "ngram-simple"]
        peers = {
            "llama.cpp, plain": llama.llama_plain,
            "llama.cpp, ngram-simple": llama.llama_speculative(*simple),
            "llama.cpp, ngram-mod": llama.llama_speculative("--spec-type", "ngram-mod"),
            "llama.cpp, draft, K = 2": llama.llama_speculative(
                "--spec-type", "draft-simple", "-md", llama.draft, "--spec-draft-n-max", 2
            ),
            "llama.cpp, draft and ngram-mod": llama.llama_speculative(
                "--spec-type", "draft-simple,ngram-mod", "-md", llama.draft, "--spec-draft-n-max", 2
            ),
        }
    speeds: dict[str, dict[str, float]] = {row: {} for row in [*rows, *peers]}
    copied: dict[str, str] = {}
    for index, (name, prompt) in enumerate(prompts.items()):
        outputs = set()
        for row, (engine, k) in list(rows.items())[:: 1 if index % 2 == 0 else -1]:
            completion = engine.generate(prompt, max_tokens=arguments.tokens, temperature=0, num_draft_tokens=k)
            stats = completion.stats
            outputs.add(completion.text)
            speeds[row][name] = stats.tokens_per_second
            if engine is both and k == "auto":
                copied[name] = f"{stats.accepted_copies} + {stats.accepted - stats.accepted_copies} of {stats.tokens}"
        assert len(outputs) == 1
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "prompt.txt")
            file.write_text(prompt)
            for row, run in peers.items():
                timing = run(file, 0.0, 0)
                speeds[row][name] = timing.tokens / timing.seconds
        print(f"{name} ({index + 1} of {len(prompts)})", file=sys.stderr, flush=True)

    about = f"greedy, at most {arguments.tokens} tokens, {arguments.threads} threads"
    print(f"{' with '.join(file.stem for file in files)}, {about}: tokens/s\n")
    print("| | " + " | ".join(speeds) + " | accepted copies + drafts of the model, of tokens |")
    print("|---|" + "---|" * (len(speeds) + 1))
    for name in prompts:
        print(
            f"| {name} | "
            + " | ".join(f"{by_prompt[name]:.1f}" for by_prompt in speeds.values())
            + f" | {copied[name]} |"
        )
    print(
        "| median | "
        + " | ".join(f"{statistics.median(by_prompt.values()):.1f}" for by_prompt in speeds.values())
        + " | |"
    )


if __name__ == "__main__":
    main()
