"""Compares what our reader of regular expressions lets through with Python's re, over random patterns.

    python compare_patterns.py PROGRAM SEED NUMBER [--record]

PROGRAM: pattern_lines. What we let through must match in Python; what matches there may be refused only by a class that
holds the characters common to ECMA-262 and Python, or because Python's "$" also stands before a last line end.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
import subprocess
import sys
import warnings

CHARACTERS = [*'abAZ09_ -.\n\t"\\/:\r', "é", "ß", "٣", "\u2028", "€", "😀", "\x85", "\x1c", "\u0301"]
DIFFERENT = set("\r\u2028\x85\x1c٣éß\u0301€")  # in \d, \w, \s, . or their opposites of only one of the two
BATCH, TEXTS = 250, 8


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def literal(self) -> str:
        character: str = self.random.choice(CHARACTERS)
        kind = self.random.random()
        if kind < 0.15 and ord(character) < 256:
            return f"\\x{ord(character):02x}"
        if kind < 0.25 and ord(character) < 65536:
            return f"\\u{ord(character):04x}"
        return "\\" + character if character in r".^$*+?{}[]\|()/: -\"" and character != "_" else character

    def bracket(self) -> str:
        choice, text = self.random.choice, "[" + self.random.choice(["", "^"])
        text += "]" if self.random.random() < 0.1 else ""

        def one(character: str) -> str:
            return "\\" + character if character in "\\]-[^" else character

        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if kind < 0.3:
                first, last = sorted([choice(CHARACTERS), choice(CHARACTERS)])
                text += one(first) + "-" + one(last)
            elif kind < 0.55:
                text += "\\" + choice("dwsDWS")
            elif kind < 0.6:
                text += choice(["\\^", "$", ".", "|", "(", "\\:", "\\ "])
            else:
                text += one(choice(CHARACTERS))
        return text + "]"

    def atom(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.45:
            return self.literal()
        if kind < 0.6:
            return self.bracket()
        if kind < 0.68:
            return "\\" + self.random.choice("dwsDWS")
        if kind < 0.73:
            return "."
        if kind < 0.8:
            return self.random.choice(["^", "$", "\\A", "\\Z"])
        if depth == 0:
            return "a"
        self.names += 1
        return self.random.choice(["(", "(?:", f"(?P<n{self.names}>"]) + self.choice(depth - 1) + ")"

    def part(self, depth: int) -> str:
        atom = self.atom(depth)
        if atom in ("^", "$", "\\A", "\\Z") or self.random.random() < 0.6:
            return atom
        counts = ["*", "+", "?", "{2}", "{1,3}", "{,2}", "{0}", "{2,}", "{0,1}"]
        return atom + self.random.choice(counts) + self.random.choice(["", "", "?"])

    def choice(self, depth: int) -> str:
        def sequence() -> str:
            return "".join(self.part(depth) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4])))

        return "|".join(sequence() for _ in range(self.random.choice([1, 1, 1, 2, 3])))

    def text(self) -> str:
        return "".join(self.random.choice(CHARACTERS) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4, 6])))


def problems_of(how: str, pattern: str, texts: list[str], answer: str) -> list[str]:
    try:
        compiled = re.compile(pattern)
    except re.error:
        compiled = None
    verdict, _, rest = answer.partition(" ")
    if verdict != "ok":
        return [] if compiled is None or "too many states" in rest else [f"refused: {rest}"]
    if compiled is None:
        return []  # of ranges that end in a class we take the characters
    found = []
    for text, ours in zip(texts, rest, strict=True):
        matches = bool(compiled.fullmatch(text) if how == "whole" else compiled.search(text))
        if ours == "x":
            found.append(f"{text!r}: characters and bytes disagree")
        elif ours == "1" and not matches:
            found.append(f"{text!r} is let through")
        elif ours == "0" and matches:
            is_narrower = re.search(r"\\[dwsDWS]|\.", pattern) and set(text) & DIFFERENT
            if not is_narrower and not ("$" in pattern and "\n" in text):
                found.append(f"{text!r} is refused")
    return found


def compare(program: str, seed: int, number: int) -> tuple[list[str], int]:
    """The disagreements, and how many texts matched."""
    warnings.simplefilter("ignore")
    maker, problems, num_matches = Maker(seed), [], 0
    for first in range(0, number, BATCH):
        cases = []
        for _ in range(min(BATCH, number - first)):
            how = maker.random.choice(["whole", "search", "json"])
            cases.append((how, maker.choice(3), [maker.text() for _ in range(TEXTS)]))
        lines = []
        for how, pattern, texts in cases:
            fields = [pattern]
            for text in texts:
                fields += [text, json.dumps(text, ensure_ascii=False)[1:-1]] if how == "json" else [text]
            lines.append("\t".join([how, *(field.encode().hex() for field in fields)]) + "\n")
        run = subprocess.run([program], input="".join(lines), capture_output=True, text=True, check=True)
        for (how, pattern, texts), answer in zip(cases, run.stdout.splitlines(), strict=True):
            num_matches += answer.count("1") if answer.startswith("ok") else 0
            problems += [f"{how} {pattern!r}: {problem}" for problem in problems_of(how, pattern, texts, answer)]
    return problems, num_matches


def main() -> None:
    program, seed, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    problems, num_matches = compare(program, seed, number)
    print("\n".join(problems[:20]))
    print(f"{number:,} patterns, {number * TEXTS:,} texts, {num_matches:,} matches, {len(problems)} disagreements")
    if "--record" in sys.argv and not problems:
        sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
        from tests import figures

        figures.record("patterns", inputs=number)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
