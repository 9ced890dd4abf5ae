"""Random JSON schemas as constraints: what comes out is valid, what is valid may be written.

    python -m tests.fuzz.schemas --driver build/default/tests/constraints/test_schema_driver [--count 2000] [--seed 1]
                                 [--jobs 1] [--record] [--show]

For each schema of tests/fuzz/schema_documents.py, compiled for a toy vocabulary (tests/constraints/schema_driver.cpp):
  - outputs that the masks lead to are JSON, and valid without the keywords that were named as ignored (jsonschema);
  - valid instances may be written, within the documented narrowings, in some order of their properties;
  - there is no dead end, and a longer token is allowed exactly where its bytes are;
  - a schema is rejected with a place that exists, in no words of internals, and only if it has no valid instance or a
    reason that is documented.
A seed is one schema: --seed S --count 1 --show repeats it. With --record, schemas without a finding are added to
tests/figures.jsonl, for docs/security.md.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import decimal
import json
import pathlib
import random
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests import figures
from tests.fuzz.schema_documents import Documents
from tests.fuzz.schema_instances import MISSING, POOL, Instances, Judge, Writable, at, orders, plain

Json = Any

MOST_TRIALS = 600  # to make a schema with a finding smaller
WALKS, BUILT, MOST_WISHES, MOST_ORDERS = 4, 6, 4, 24
MOST_SECONDS = 2.0  # to compile one schema
ROOT = pathlib.Path(__file__).parents[2]
INTERNALS = ("Check failed", "json.exception", str(ROOT), ".cpp", "xgrammar", "std::", "falling back", "EBNF", "rule ")
# Reasons to reject a schema that may have values: it is not one, or it is beyond a limit.
REASONS = re.compile(
    r"is not supported|must be|must begin|is not a schema|which is not a type|is not a regular expression"
    r"|points nowhere|is empty|is not JSON|has a null character|nested|exceeds the limit|is more than 512|too many"
    r"|has more than|bytes|cannot be written"
)


# Integers that are kept as floating-point numbers, and line ends, before which "$" stands in Python.
OTHERWISE = re.compile(r"\d{20}|\\n\"")


class DriverDied(Exception):
    pass


class Driver:
    """The program that compiles; started again if it died."""

    def __init__(self, path: pathlib.Path, timeout: float = 60) -> None:
        self.path, self.timeout = path, timeout
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: Json) -> Json:
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process = self.process
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        readable, _, _ = select.select([process.stdout], [], [], self.timeout)
        line = process.stdout.readline() if readable else ""
        if line:
            return json.loads(line)
        self.close()
        raise DriverDied(f"no answer in {self.timeout:.0f} s" if not readable else f"exit code {process.returncode}")

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@dataclasses.dataclass
class Result:
    """counts: schemas, accepted, walks, unfinished, judged, wishes, ..; findings: (kind, seed, schema, what)."""

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    findings: list[tuple[str, int, str, str]] = dataclasses.field(default_factory=list)

    def add(self, other: Result) -> None:
        self.counts.update(other.counts)
        self.errors.update(other.errors)
        self.findings += other.findings


def place_of(message: str, document: Json) -> bool:
    """Whether an error names a place that exists."""
    text = message.removeprefix("json_schema ").removeprefix("cannot be used: ")
    if text.startswith("the schema ") or text == message.removeprefix("json_schema "):
        return True
    words = text.split(" ")
    pointers = (" ".join(words[:i]) for i in range(1, len(words)))
    return any(pointer.startswith("/") and at(document, pointer) is not MISSING for pointer in pointers)


def wishes_of(document: Json, rng: random.Random) -> list[tuple[Json, list[str]]]:
    """Valid instances that a constraint promises to let through, each in the orders of which one must be allowed."""
    judge, writable = Judge(document), Writable(document)
    found: dict[str, tuple[Json, list[str]]] = {}
    for instance in map(plain, [*Instances(document, rng).some(BUILT), *rng.sample(POOL, 3)]):
        try:
            text = json.dumps(instance, ensure_ascii=False, allow_nan=False)
            text.encode()
        except ValueError:
            continue
        if (
            OTHERWISE.search(text)
            or text in found
            or judge.problem(instance) != ""
            or not writable.is_promised(instance)
        ):
            continue
        if (some := orders(instance, MOST_ORDERS)) is not None:
            found[text] = (instance, [json.dumps(one, ensure_ascii=False) for one in some])
        if len(found) >= MOST_WISHES:
            break
    return list(found.values())


def answer_of(driver: Driver, request: dict[str, Json], finding: Callable[[str, str], None]) -> Any:
    """The driver's reply; None, and a finding, if it has none."""
    try:
        reply = driver.ask({**request, "walks": WALKS})
    except DriverDied as died:
        finding("died", str(died))
        return None
    if "crash" in reply:
        finding("crash", reply["crash"])
        return None
    if reply["seconds"] > MOST_SECONDS:
        finding("slow", f"{reply['seconds']:.1f} s")
    return reply


def kind_of(fault: str) -> str:
    """A fault of a mask without its tokens and texts."""
    return re.sub(r" after .*| .* is (not )?masked.*", "", fault, flags=re.DOTALL)


def check(driver: Driver, seed: int, text: str | None = None, is_strict: bool | None = None) -> Result:
    """Makes a schema, or takes this one, and checks it."""
    rng = random.Random(f"instances {seed}")
    text = Documents(seed).document() if text is None else text
    is_strict = rng.random() < 0.35 if is_strict is None else is_strict
    result = Result()
    result.counts["schemas"] += 1

    def finding(kind: str, what: str) -> None:
        result.findings.append((kind, seed, text, f"{'strict' if is_strict else 'not strict'}: {what}"))

    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = MISSING
    wishes: list[tuple[Json, list[str]]] = []
    if isinstance(document, dict | bool):
        try:
            wishes = wishes_of({"type": "object"} if document == {} else document, rng)
        except (TypeError, ValueError, AttributeError, LookupError, RecursionError, re.error):
            result.counts["odd documents"] += 1
    texts = [one for _, some in wishes for one in some]
    request: dict[str, Json] = {"schema": text, "strict": is_strict, "wishes": list(texts), "seed": seed}
    reply = answer_of(driver, request, finding)
    if reply is None:
        return result
    if "error" in reply:
        message = reply["error"]
        result.counts["rejected"] += 1
        result.errors[generalised(message)] += 1
        said = re.sub(r'points nowhere: .*|is "?.*which is not a type|names ".*', "", message, flags=re.DOTALL)
        if any(word in said for word in INTERNALS):
            finding("internals", message)
        if not place_of(message, document):
            finding("no such place", message)
        if wishes and not REASONS.search(message):
            finding("has a value", f"{message}; {texts[0]} is valid")
        return result
    result.counts["accepted"] += 1
    result.counts["with ignored keywords"] += bool(reply["ignored"])
    for pointer in reply["ignored"]:
        if at(document, pointer) is MISSING:
            finding("no such place", f"ignored {pointer}")
    if is_strict and reply["ignored"]:
        finding("ignored although strict", str(reply["ignored"]))
    for fault in reply["faults"]:
        finding(kind_of(fault), fault)
    judge = Judge(document, reply["ignored"])
    for walk in reply["walks"]:
        if walk is None:
            result.counts["unfinished walks"] += 1
            continue
        result.counts["walks"] += 1
        try:
            problem = judge.problem(json.loads(walk))
            if problem and "e+" in walk:  # a large integer to us, not to Python
                problem = judge.problem(json.loads(walk, parse_float=exact)) and None
            if problem and "\\n" in walk and "$" in text:  # Python's $ also stands before a last line end
                problem = None
        except (ValueError, RecursionError) as error:
            finding("not JSON", f"{walk}: {error}")
            continue
        result.counts["walks not judged"] += problem is None
        if problem:
            finding("not valid", f"{walk}: {problem}" + (f"; ignored {reply['ignored']}" if reply["ignored"] else ""))
    answers = iter(reply["wishes"])
    for _, some in wishes:
        result.counts["wishes"] += 1
        refused = [next(answers) for _ in some]
        if None not in refused:
            most = max(range(len(some)), key=lambda i: refused[i])
            finding("not writable", f"{some[most]} from byte {refused[most]}")
    return result


def smaller(value: Json) -> Iterator[Json]:
    """The value without one of its parts, or with a smaller one."""
    if isinstance(value, dict):
        for name in value:
            yield {other: part for other, part in value.items() if other != name}
        for name, part in value.items():
            yield from ({**value, name: one} for one in smaller(part))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield value[:i] + value[i + 1 :]
        for i, part in enumerate(value):
            yield from ([*value[:i], one, *value[i + 1 :]] for one in smaller(part))


def shrunk(driver: Driver, kind: str, seed: int, text: str, is_strict: bool) -> tuple[str, str]:
    """A smaller schema with a finding of this kind, and what it is."""
    what = ""
    try:
        document = json.loads(text)
    except ValueError:
        return text, what
    left = MOST_TRIALS
    while True:
        for one in smaller(document):
            left -= 1
            found = check(driver, seed, json.dumps(one, ensure_ascii=False), is_strict).findings
            some = [what for kind_here, _, _, what in found if kind_here == kind]
            if some or left < 0:
                break
        else:
            break
        if left < 0:
            break
        document, what = one, some[0]
    return json.dumps(document, ensure_ascii=False), what


def exact(text: str) -> float | int:
    """1e+30 is the integer that it says."""
    number = decimal.Decimal(text)
    is_large = abs(number) >= 2**53 and number == number.to_integral_value()
    return int(number) if is_large else float(text)


def generalised(message: str) -> str:
    message = re.sub(r'"(\\.|[^"\\])*"', '""', message)
    message = re.sub(
        r"(cannot be used: )/.*?(?= (is|must|allows|has|exceeds|points|refers|cannot|names)\b)", r"\1PLACE", message
    )
    return re.sub(r"\d+", "N", re.sub(r"points nowhere: .*", "points nowhere", message, flags=re.DOTALL))


def run(path: pathlib.Path, seeds: range) -> Result:
    driver, result = Driver(path), Result()
    for seed in seeds:
        result.add(check(driver, seed))
    driver.close()
    return result


def runs(path: pathlib.Path, seeds: range, jobs: int) -> Iterator[Result]:
    parts = [seeds[i : i + 250] for i in range(0, len(seeds), 250)]
    if jobs == 1:
        yield from (run(path, part) for part in parts)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, [path] * len(parts), parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="of the first schema; the next ones follow")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the errors by their kind, and every finding")
    options = parser.parse_args()
    total, begin, shown = Result(), time.monotonic(), collections.Counter[str]()
    driver = Driver(options.driver.resolve())
    for result in runs(options.driver.resolve(), range(options.seed, options.seed + options.count), options.jobs):
        total.add(result)
        for kind, seed, text, what in result.findings:
            shown[kind] += 1
            if options.show or shown[kind] <= 3:
                small, what_small = shrunk(driver, kind, seed, text, not what.startswith("not strict"))
                print(f"[{kind}] seed {seed}: {small}\n    {what_small or what}", flush=True)
    driver.close()
    if options.show:
        for message, count in total.errors.most_common():
            print(f"{count:7} {message}")
    print(
        ", ".join(f"{count:,} {name}" for name, count in total.counts.items()), f"in {time.monotonic() - begin:.0f} s"
    )
    print("findings:", ", ".join(f"{count} {kind}" for kind, count in shown.items()) or "none")
    if options.record and not total.findings:
        figures.record("schemas", inputs=total.counts["schemas"])
    sys.exit(1 if total.findings else 0)


if __name__ == "__main__":
    main()
