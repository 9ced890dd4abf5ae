"""What the long runs of the fuzzers and of the soak have counted, and the table of it in docs/security.md.

    python tests/figures.py      (after runs with --record: writes the table)

figures.jsonl: one line for each run, appended by tests/fuzz/run.py, tests/fuzz/schemas.py and tests/soak/soak.py. The
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

WHAT = {  # what the page says of a program, in its order
    "gguf": "bytes of a file through the reader",
    "models": "changed models through the checks",
    "generate": "changed models through a generation",
    "requests": "JSON as the value of every option",
    "prompts": "files of prompts",
    "constraints": "grammars, JSON schemas and regular expressions",
    "schemas": "JSON schemas, what they let through and what they refuse",
    "results": "what an interrupted run left",
    "rpc": "messages to `rpc-server`, without graphs",
}
SCRIPTS = ("schemas",)  # in Python; the others are programs of libFuzzer's kind


def record(program: str, **counts: float) -> None:
    """Appends a run: `inputs` of a fuzzer; seconds, requests, generators and memory (bytes) of the soak."""
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
    for program, what in WHAT.items():
        name = f"fuzz/{program}.py" if program in SCRIPTS else f"fuzz_{program}"
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
    return "\n".join(lines) + "\n"


def page_with_table() -> str:
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + table() + text[end:]


if __name__ == "__main__":
    PAGE.write_text(page_with_table(), encoding="utf-8")
