"""What the long runs of the fuzzers and of the soak have counted, and the table of it in docs/security.md.

    python tests/figures.py      (after runs with --record: writes the table)

figures.jsonl: one line for each run, appended by tests/fuzz/run.py, tests/soak/soak.py and the scripts of WHAT. The
table adds them up. A run with a finding is not recorded: it becomes a test, and the count goes on with the version that
passes it.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections import defaultdict
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
FIGURES = ROOT / "tests" / "figures.jsonl"
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- tests/figures.py -->\n\n", "\n<!-- end -->"

# What the page says of a program, in its order: the program's name there, and its inputs.
WHAT = {
    "gguf": ("fuzz_gguf", "bytes of a file through the reader"),
    "pictures": ("fuzz_pictures", "bytes of a file through the decoder of pictures"),
    "models": ("fuzz_models", "changed models through the checks"),
    "generate": ("fuzz_generate", "changed models through a generation"),
    "requests": ("fuzz_requests", "JSON as the value of every option"),
    "prompts": ("fuzz_prompts", "files of prompts"),
    "constraints": ("fuzz_constraints", "bytes as grammars, JSON schemas, regular expressions and structural tags"),
    "schemas": ("fuzz/schemas.py", "JSON schemas, what they accept and what they reject"),
    "patterns": ("constraints/compare_patterns.py", "regular expressions, compared with Python's"),
    "grammars": ("fuzz/grammars.py grammars", "grammars in GBNF, what they accept and what they reject"),
    "tags": ("fuzz/grammars.py tags", "structural tags, likewise"),
    "bodies": ("server/odd_bodies.py", "bodies of requests to the six APIs"),
    "chat_files": ("cli/chat_files.py", "files for `/load`"),
    "leaving": ("server/leaving.py", "clients that leave at random moments"),
    "results": ("fuzz_results", "what an interrupted run left"),
    "rpc": ("fuzz_rpc", "messages to `rpc-server`, without graphs"),
}


def record(program: str, **counts: float | str) -> None:
    """Appends a run: `inputs` of a fuzzer; seconds, requests, generators and memory (bytes) of the soak; requests, kind
    and memory_growth (bytes) of tests/server/growth.py."""
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=9"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    with FIGURES.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"program": program, "commit": commit, **counts}) + "\n")


def runs() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for line in FIGURES.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        found[run["program"]].append(run)
    return found


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def table() -> str:
    found = runs()
    lines = ["| program | so far, without a report |", "|---|---|"]
    for program, (name, what) in WHAT.items():
        lines.append(f"| `{name}`: {what} | {sum(run['inputs'] for run in found[program]):,} inputs |")
    if soaks := found["soak"]:
        longest = max(soaks, key=lambda run: run["seconds"])
        seconds, requests, generators = (
            sum(run[what] for run in soaks) for what in ("seconds", "requests", "generators")
        )
        first, last = (f"{longest[f'memory_{when}'] / 2**20:.0f} MiB" for when in ("beginning", "end"))
        many = "s" if len(soaks) > 1 else ""
        counts = f"{duration(seconds)} in {len(soaks)} run{many}, {requests:,} requests, {generators:,} Generators"
        memory = f"resident memory of the longest run, {duration(longest['seconds'])}: {first}, then {last}"
        lines.append(f"| `make soak`: mixed requests | {counts}; {memory} |")
    if grown := {run["kind"]: run for run in found["growth"]}:  # the latest run of each kind
        counts = f"{sum(run['requests'] for run in grown.values()):,} requests of {len(grown)} kinds"
        most = max(run["memory_growth"] for run in grown.values()) / 2**20
        memory = f"after the first 500 of a kind, resident memory grew by at most {most:.0f} MiB"
        lines.append(f"| `server/growth.py`, `server/odd_bodies.py`: what a server keeps | {counts}; {memory} |")
    return "\n".join(lines) + "\n"


def page_with_table() -> str:
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + table() + text[end:]


if __name__ == "__main__":
    PAGE.write_text(page_with_table(), encoding="utf-8")
