"""Random grammars and structural tags as constraints: what comes out is of their form, what is of it may be written.

    python -m tests.fuzz.grammars grammars|tags --driver build/default/tests/constraints/test_schema_driver
                                  [--count 2000] [--seed 1] [--record] [--show]

For each grammar in GBNF (grammar_texts.py) and each structural tag (tag_documents.py), compiled for a toy vocabulary
(tests/constraints/schema_driver.cpp):
  - outputs that the masks lead to are texts of the grammar or the tag, by a plain reader of its tree;
  - random texts of it may be written;
  - there is no dead end, and a longer token is allowed exactly where its bytes are;
  - what is rejected has a reason, and a place that exists, in no words of internals.
A seed is one of them: --seed S --count 1 --show repeats it. With --record, inputs without a finding are added to
tests/figures.jsonl, for docs/security.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from tests import figures
from tests.fuzz import grammar_texts, tag_documents
from tests.fuzz.schema_instances import MISSING, at
from tests.fuzz.schemas import Driver, Result, answer_of, generalised, kind_of

Json = Any

WISHES, LONGEST_JUDGED = 4, 90
INTERNALS = ("heck failed", "type mismatch", "json.exception", ".cpp", "std::", "xgrammar", "EBNF")
TOKENS = re.compile(r'"(token|exclude_token|any_tokens|token_\w+)"')
# What is said of a structural tag as a whole.
ABOUT_ALL = re.compile(
    r"^structural_tag (is not JSON|is nested too deeply|has more than"
    r"|cannot be used: (it|its type|each of /structures) )"
)
# Reasons to reject what has texts.
BOUNDS = re.compile(
    r"has more than \d+ classes|nested \d+ levels|exceeds what|exceeds the limit|content that does not end"
    r"|more than one of the triggers"
)


def grammar_place_exists(message: str, text: str) -> bool:
    """line L, character C: the place, and what stands there."""
    found = re.search(r"line (\d+), character (\d+): ('(.*?)'|the end): ", message, re.DOTALL)
    if not found:
        return "has no rule named root" in message or BOUNDS.search(message) is not None or "null character" in message
    lines = text.split("\n")
    line, character = int(found[1]), int(found[2])
    return line <= len(lines) and character <= len(lines[line - 1]) + 1


def tag_place_exists(message: str, document: Json) -> bool:
    """A pointer into the document, or a message about all of it."""
    found = re.search(r"cannot be used: (/\S*)", message)
    if not found:
        return ABOUT_ALL.search(message) is not None
    words = message.removeprefix("structural_tag cannot be used: ").split(" ")
    pointers = [" ".join(words[: i + 1]) for i in range(len(words))]
    # a member that is missing is named, too
    return any(
        at(document, one) is not MISSING or at(document, one.rpartition("/")[0]) is not MISSING for one in pointers
    )


def compare(
    driver: Driver,
    seed: int,
    request: dict[str, Json],
    texts: list[str],
    judge: Callable[[str], bool] | None,
    has_place: Callable[[str], bool],
) -> Result:
    """texts: may be written; judge: whether an output is right; None: nobody knows."""
    result = Result()
    result.counts["inputs"] += 1
    shown = next(iter(request.values()))

    def finding(kind: str, what: str) -> None:
        result.findings.append((kind, seed, shown, what))

    reply = answer_of(driver, {**request, "strict": False, "wishes": list(texts), "seed": seed}, finding)
    if reply is None:
        return result
    if "error" in reply:
        message = reply["error"]
        result.counts["rejected"] += 1
        result.errors[generalised(re.sub(r"'.*?': ", "'': ", message, flags=re.DOTALL))] += 1
        if any(word in message for word in INTERNALS):
            finding("internals", message)
        if not has_place(message):
            finding("no such place", message)
        if texts and not BOUNDS.search(message):
            finding("has a text", f"{message}; {texts[0]!r} is one")
        return result
    result.counts["accepted"] += 1
    for fault in reply["faults"]:
        if TOKENS.search(str(shown)):  # they are named by number, and one without bytes is a dead end
            continue
        finding(kind_of(fault), fault)
    for walk in reply["walks"]:
        if walk is None or judge is None or len(walk) > LONGEST_JUDGED:
            result.counts["walks not judged"] += 1
            continue
        result.counts["walks"] += 1
        if not judge(walk):
            finding("not of its form", repr(walk))
    for text, refused in zip(texts, reply["wishes"], strict=True):
        result.counts["wishes"] += 1
        if refused is not None:
            finding("not writable", f"{text!r} from byte {refused}")
    return result


def check_grammar(driver: Driver, seed: int) -> Result:
    maker = grammar_texts.Grammars(seed)
    rules = maker.rules()
    text = maker.written(rules)
    rng = random.Random(f"sentences {seed}")

    def has_place(message: str) -> bool:
        return grammar_place_exists(message, text)

    if rng.random() < 0.15:
        text = maker.broken(text)
        return compare(driver, seed, {"grammar": text}, [], None, has_place)
    if grammar_texts.problem_of(rules):
        result = compare(driver, seed, {"grammar": text}, [], None, has_place)
        if result.counts["accepted"]:
            result.findings.append(("accepted", seed, text, grammar_texts.problem_of(rules)))
        return result
    texts = [one for one in (grammar_texts.sentence(rules, rng) for _ in range(WISHES)) if one is not None]
    return compare(driver, seed, {"grammar": text}, texts, lambda walk: grammar_texts.matches(rules, walk), has_place)


def check_tag(driver: Driver, seed: int) -> Result:
    maker = tag_documents.Tags(seed)
    document = maker.document()
    request = {"structural_tag": json.dumps(document, ensure_ascii=False)}

    def has_place(message: str) -> bool:
        return tag_place_exists(message, document)

    if not maker.is_exact:
        return compare(driver, seed, request, [], None, has_place)
    texts = []
    for _ in range(WISHES):
        try:
            texts.append(maker.text_of(document))
        except OverflowError:
            continue
    return compare(driver, seed, request, texts, lambda walk: maker.allows(document, walk), has_place)


KINDS = {"grammars": check_grammar, "tags": check_tag}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="of the first one; the next ones follow")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the errors by their kind, and every finding")
    options = parser.parse_args()
    total, begin, shown = Result(), time.monotonic(), collections.Counter[str]()
    driver = Driver(options.driver.resolve())
    for seed in range(options.seed, options.seed + options.count):
        result = KINDS[options.kind](driver, seed)
        total.add(result)
        for kind, _, text, what in result.findings:
            shown[kind] += 1
            if options.show or shown[kind] <= 3:
                print(f"[{kind}] seed {seed}: {text}\n    {what}", flush=True)
    driver.close()
    if options.show:
        for message, count in total.errors.most_common():
            print(f"{count:7} {message}")
    print(
        ", ".join(f"{count:,} {name}" for name, count in total.counts.items()), f"in {time.monotonic() - begin:.0f} s"
    )
    print("findings:", ", ".join(f"{count} {kind}" for kind, count in shown.items()) or "none")
    if options.record and not total.findings:
        figures.record(options.kind, inputs=total.counts["inputs"])
    sys.exit(1 if total.findings else 0)


if __name__ == "__main__":
    main()
