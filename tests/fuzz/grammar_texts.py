"""Random grammars in GBNF: their rules as a tree, the tree as a text, sentences of it, and whether a text is one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

CHARACTERS = [*"aabbcABZ019_ -.,:;{}[]()\"'\\/|*+?^#\n\t", "ä", "€", "😀", "\u2028", "\x7f", "\x1b"]
CONTROLS = {"\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\a": "a", "\b": "b", "\x1b": "e"}
NAMES = ["root", "a", "b-c", "Item", "x1", "a_b", "9", "-"]
COUNTS: list[tuple[str, int, int | None]] = [
    ("*", 0, None),
    ("+", 1, None),
    ("?", 0, 1),
    ("{2}", 2, 2),
    ("{0}", 0, 0),
    ("{1,3}", 1, 3),
    ("{ 0 , 2 }", 0, 2),
    ("{2,}", 2, None),
    ("{,2}", 0, 2),
]
ENDLESS = 10**9


@dataclasses.dataclass
class Node:
    """kind: literal, class, choice, sequence, count, name."""

    kind: str
    text: str = ""  # of a literal, a name, a count
    ranges: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    is_negated: bool = False
    parts: list[Node] = dataclasses.field(default_factory=list)
    least: int = 1
    most: int | None = 1

    def has(self, character: str) -> bool:
        return any(first <= character <= last for first, last in self.ranges) != self.is_negated and character != "\0"


Rules = dict[str, Node]


class Grammars:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"grammar {seed}")
        names = self.random.sample(NAMES[1:], self.random.choice([0, 0, 1, 1, 2, 3]))
        self.names = ["root", *names]

    def rules(self) -> Rules:
        depth = self.random.choice([1, 2, 2, 3])
        return {name: self.choice(depth) for name in self.names}

    def choice(self, depth: int) -> Node:
        parts = [self.sequence(depth) for _ in range(self.random.choice([1, 1, 2, 2, 3]))]
        return parts[0] if len(parts) == 1 else Node("choice", parts=parts)

    def sequence(self, depth: int) -> Node:
        return Node("sequence", parts=[self.part(depth) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4]))])

    def part(self, depth: int) -> Node:
        atom = self.atom(depth)
        if self.random.random() < 0.65:
            return atom
        text, least, most = self.random.choice(COUNTS)
        if self.random.random() < 0.04:
            least = self.random.choice([20, 60])
            most = least + self.random.choice([0, 9])
            text = f"{{{least},{most}}}"
        return Node("count", text=text, least=least, most=most, parts=[atom])

    def atom(self, depth: int) -> Node:
        kind = self.random.random()
        if kind < 0.4 or (depth == 0 and kind < 0.7):
            return Node("literal", text="".join(self.random.choices(CHARACTERS, k=self.random.choice([0, 1, 1, 2, 3]))))
        if kind < 0.6:
            return self.bracket()
        if kind < 0.8 or depth == 0:
            name = self.random.choice(self.names)
            return Node("name", text="nobody" if self.random.random() < 0.01 else name)
        return self.choice(depth - 1)

    def bracket(self) -> Node:
        if self.random.random() < 0.1:
            return Node("class", text=".", is_negated=True)
        ranges = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            first, last = sorted(self.random.choices(CHARACTERS, k=2))
            ranges.append((first, last) if self.random.random() < 0.4 else (first, first))
        return Node("class", ranges=ranges, is_negated=self.random.random() < 0.25)

    # ---- As a text

    def written(self, rules: Rules) -> str:
        ends = ["\n", "\n\n", ' # a comment ::= "\n', "\r\n", "\n  "]
        order = list(rules)
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        lines = [f"{name}{self.blank(' ')}::={self.blank(' ')}{self.of(rules[name])}" for name in order]
        return "".join(line + self.random.choice(ends) for line in lines)

    def blank(self, usual: str = "") -> str:
        return usual if self.random.random() < 0.8 else self.random.choice([" ", "  ", "\t"])

    def of(self, node: Node, inside: str = "rule") -> str:
        """inside: what it stands in."""
        if node.kind == "literal":
            return '"' + "".join(self.character(one, '"\\') for one in node.text) + '"'
        if node.kind == "name":
            return node.text
        if node.kind == "class":
            return node.text or self.bracket_of(node)
        if node.kind == "count":
            part = node.parts[0]
            text = self.of(part, "count")
            return text + self.blank() + node.text if node.text[0] == "{" else text + node.text
        if node.kind == "choice":
            gap = self.random.choice([" | ", "|", "\n  | "]) if inside != "rule" else self.random.choice([" | ", "|"])
            text = gap.join(self.of(part, "choice") for part in node.parts)
        else:
            text = " ".join(self.of(part, "sequence") for part in node.parts)
        return text if inside == "rule" or (inside == "choice" and node.kind == "sequence") else f"({text})"

    def character(self, one: str, special: str) -> str:
        kind = self.random.random()
        code = ord(one)
        if kind < 0.1 and code < 256:
            return f"\\x{code:02X}"
        if kind < 0.15 and code < 65536:
            return f"\\u{code:04x}"
        if kind < 0.2:
            return f"\\U{code:08X}"
        if one in CONTROLS and kind < 0.7:
            return "\\" + CONTROLS[one]
        return "\\" + one if one in special else one

    def bracket_of(self, node: Node) -> str:
        text = "[^" if node.is_negated else "["
        for first, last in node.ranges:
            text += self.character(first, "\\]^-[")
            if last != first:
                text += "-" + self.character(last, "\\]^-[")
        return text + "]"

    def broken(self, text: str) -> str:
        """Some characters are lost, doubled or replaced."""
        for _ in range(self.random.choice([1, 1, 2, 4])):
            at, kind = self.random.randrange(len(text) + 1), self.random.random()
            inserted = self.random.choice(
                ['"', "(", ")", "]", "{", "}", "|", "::=", "\\", "\\x4", "{9999}", "\n", "\0"]
            )
            text = text[:at] + ("" if kind < 0.4 else inserted) + text[at + (kind < 0.6) :]
        return text


# ---- What a grammar means


def depths(rules: Rules) -> dict[int, int]:
    """By a node's id: how many names must be followed for it to end; ENDLESS: it cannot."""
    found: dict[int, int] = {}

    def of(node: Node) -> int:
        inner = [of(part) for part in node.parts]
        depth = 0
        if node.kind == "name":
            depth = 1 + found.get(id(rules[node.text]), ENDLESS) if node.text in rules else ENDLESS
        elif node.kind == "choice":
            depth = min(inner)
        elif node.kind == "sequence":
            depth = max(inner, default=0)
        elif node.kind == "count":
            depth = inner[0] if node.least > 0 else 0
        found[id(node)] = min(depth, ENDLESS)
        return found[id(node)]

    for _ in range(len(rules) + 1):
        for node in rules.values():
            of(node)
    return found


def problem_of(rules: Rules) -> str:
    """Why no text may be promised for it; "": none."""
    found = depths(rules)
    if any(node.kind == "name" and node.text not in rules for node in all_nodes(rules)):
        return "a name without a rule"
    if any(found[id(node)] >= ENDLESS for node in rules.values()):
        return "a rule that needs itself"
    return ""


def all_nodes(rules: Rules) -> Iterable[Node]:
    waiting = list(rules.values())
    while waiting:
        node = waiting.pop()
        waiting += node.parts
        yield node


def sentence(rules: Rules, rng: random.Random, most: int = 300) -> str | None:
    """A text of the grammar; None: it became too long."""
    found = depths(rules)
    left = most

    def of(node: Node, names: int) -> str:
        nonlocal left
        left -= 1
        is_short = names > 5 or left < most / 2
        if left < 0:
            raise OverflowError
        if node.kind == "literal":
            return node.text
        if node.kind == "class":
            # No range of a class begins below a tab.
            return rng.choice([one for one in CHARACTERS if node.has(one)] or ["\x01"])
        if node.kind == "name":
            return of(rules[node.text], names + 1)
        if node.kind == "choice":
            shortest = min(found[id(part)] for part in node.parts)
            can = [one for one in node.parts if found[id(one)] <= (shortest if is_short else ENDLESS - 1)]
            return of(rng.choice(can), names)
        if node.kind == "sequence":
            return "".join(of(part, names) for part in node.parts)
        high = node.least if is_short or found[id(node.parts[0])] >= ENDLESS else min(node.most or 4, node.least + 3)
        if node.most == 0:
            return ""
        return "".join(of(node.parts[0], names) for _ in range(rng.randint(node.least, max(high, node.least))))

    try:
        return of(rules["root"], 0)
    except (OverflowError, RecursionError):
        return None


def matches(rules: Rules, text: str) -> bool:
    """Whether the whole text is one of the grammar's. Sets of ends grow until nothing changes: rules may begin with
    themselves."""
    known: dict[tuple[str, int], set[int]] = {}

    def run() -> tuple[set[int], bool]:
        seen: set[tuple[str, int]] = set()
        has_grown = False

        def named(name: str, at: int) -> set[int]:
            nonlocal has_grown
            place = (name, at)
            ends = known.setdefault(place, set())
            if place not in seen:
                seen.add(place)
                more = of(rules[name], at)
                if not more <= ends:
                    ends |= more
                    has_grown = True
            return set(ends)

        def after(node: Node, starts: set[int]) -> set[int]:
            return set().union(*(of(node, start) for start in starts)) if starts else set()

        def of(node: Node, at: int) -> set[int]:
            if node.kind == "literal":
                return {at + len(node.text)} if text.startswith(node.text, at) else set()
            if node.kind == "class":
                return {at + 1} if at < len(text) and node.has(text[at]) else set()
            if node.kind == "name":
                return named(node.text, at)
            if node.kind == "choice":
                return set().union(*(of(part, at) for part in node.parts))
            ends = {at}
            if node.kind == "sequence":
                for part in node.parts:
                    ends = after(part, ends)
                return ends
            for _ in range(node.least):
                ends = after(node.parts[0], ends)
            all_ends, times = set(ends), node.least
            while ends and (node.most is None or times < node.most):
                ends = after(node.parts[0], ends) - all_ends
                all_ends |= ends
                times += 1
            return all_ends

        return named("root", 0), has_grown

    while True:
        ends, has_grown = run()
        if not has_grown:
            return len(text) in ends
