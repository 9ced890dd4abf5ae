"""Makes the tables of bench/peers/peers.py from its result lines."""

from __future__ import annotations

import pathlib
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Line = dict[str, Any]
BEGIN, END = "<!-- begin: bench/peers/peers.py -->", "<!-- end -->"
HEAD = "# Against other engines\n\nWhat is measured and how: the head of [peers.py](peers.py).\n\n"


def measured(lines: Iterable[Line], pair: str, temperature: float) -> dict[str, list[Line]]:
    """Lines of the rounds (0 chose the number of draft tokens), by row."""
    by_row: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line["pair"] == pair and line["temperature"] == temperature and line["round"] > 0:
            by_row[line["row"]].append(line)
    return dict(by_row)


def speed(lines: Iterable[Line]) -> float:
    lines = list(lines)
    return float(sum(line["produced"] for line in lines) / sum(line["seconds"] for line in lines))


def speeds(lines: Iterable[Line], key: str = "round") -> dict[Any, float]:
    """Tokens per second of each round, or of each prompt over all rounds."""
    groups: dict[Any, list[Line]] = defaultdict(list)
    for line in lines:
        groups[line[key]].append(line)
    return {group: speed(members) for group, members in groups.items()}


def acceptance(lines: Iterable[Line]) -> float | None:
    lines = list(lines)
    drafted = sum(line["drafted"] for line in lines)
    return float(sum(line["accepted"] for line in lines) / drafted) if drafted else None


def median(lines: Iterable[Line]) -> float:
    return statistics.median(speeds(lines).values())


def is_ours(row: str) -> bool:
    return row.startswith("ours")


def best(rows: dict[str, list[Line]], ours: bool) -> str | None:
    return max((row for row in rows if is_ours(row) == ours), key=lambda row: median(rows[row]), default=None)


def speed_table(rows: dict[str, list[Line]]) -> list[str]:
    peer = best(rows, ours=False)
    several = any(len(speeds(lines)) > 1 for lines in rows.values())
    spread = "round" if several else "prompt"
    table = [
        f"| engine, weights | K | tokens/s | worst to best {spread} | accepted | against the best peer |",
        "|---|---|---|---|---|---|",
    ]
    for row, lines in sorted(rows.items(), key=lambda item: (is_ours(item[0]), median(item[1]))):
        parts, rate = speeds(lines, spread).values(), acceptance(lines)
        cells = [row, str(lines[0]["k"] or ""), f"{median(lines):.1f}", f"{min(parts):.1f} to {max(parts):.1f}"]
        cells += [
            f"{rate:.2f}" if rate is not None else "",
            f"{median(lines) / median(rows[peer]):.2f}" if peer else "",
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table


def prompt_table(rows: dict[str, list[Line]]) -> list[str]:
    compared = [row for row in (best(rows, ours=False), best(rows, ours=True)) if row is not None]
    by_prompt = {row: speeds(rows[row], "prompt") for row in compared}
    prompts = sorted(set.intersection(*(set(table) for table in by_prompt.values()))) if by_prompt else []
    table = ["| tokens/s | " + " | ".join(prompts) + " |", "|---|" + "---|" * len(prompts)]
    return table + ["| " + " | ".join([row, *(f"{by_prompt[row][p]:.1f}" for p in prompts)]) + " |" for row in compared]


def section(lines: list[Line], pairs: list[str], left_out: dict[tuple[str, str], str]) -> str:
    parts: list[str] = []
    for pair in pairs:
        for temperature in (0.0, 0.8):
            rows = measured(lines, pair, temperature)
            if not rows:
                continue
            some = next(iter(rows.values()))
            rounds = len({line["round"] for line in some})
            title = "greedy" if temperature == 0 else f"temperature {temperature}"
            parts.append(f"## {pair}, {title}\n")
            parts.append(
                f"Prompts: {len({line['prompt'] for line in some})}, of {some[0]['tokens']} tokens; rounds: {rounds}; "
                f"threads: {some[0]['threads']}. K is the best number of draft tokens of those tried.\n"
            )
            parts += [*speed_table(rows), "", *prompt_table(rows), ""]
        missing = [f"- {row}: {why}" for (name, row), why in left_out.items() if name == pair]
        if missing:
            parts += ["Left out:\n", *missing, ""]
    return "\n".join(parts)


def write_report(path: pathlib.Path, lines: list[Line], pairs: list[str], left_out: dict[tuple[str, str], str]) -> None:
    """Replaces the section between the marks and keeps the text around it."""
    text = path.read_text() if path.exists() else f"{HEAD}{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{section(lines, pairs, left_out)}\n{END}{after}")
