"""How much memory a server takes in the course of many varied requests.

    python -m tests.server.growth [--requests 10000] [--kinds chats ...] [--record] [--specdec build/default/specdec]

For each kind of request a server of its own: its resident memory after the first 500 requests and at the end. No two
requests are alike. More than 64 MiB between the two, a failure or a server that ends is a finding. With --record, kinds
without one are added to tests/figures.jsonl, for docs/security.md. odd_bodies.py does so for bodies of each API.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tests import figures
from tests.server import leaving, odd_bodies
from tests.server.running import serving

OPTIONS: tuple[object, ...] = ("-n", 3, "-np", 4, "--queue", 64, "-c", 512, "--cache-ram", 16)
FIRST, MOST_MIB = 500, 64
WORDS = ["def", "return", "self", "x", "(", ")", ":", "\n", "    ", "import os", "é", "🙂", "0x1f", "'", '"', "<", "<|"]


def text(chance: random.Random, most: int = 60) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most))) + f" {chance.randrange(10**9)}"


def options(chance: random.Random) -> dict[str, Any]:
    table: dict[str, Any] = {
        "temperature": chance.choice([0, 0.7, 1.5]),
        "seed": chance.randrange(10**6),
        "stop": [text(chance, 2)],
        "logprobs": chance.choice([1, 3]),
        "logit_bias": {str(chance.randrange(200)): chance.randint(-5, 5)},
        "presence_penalty": chance.random(),
        "top_k": chance.randint(1, 90),
        "n": chance.choice([1, 2]),
        "ignore_eos": True,
    }
    return {name: table[name] for name in chance.sample(sorted(table), chance.randint(0, 4))}


def completion(chance: random.Random) -> tuple[str, Any]:
    return "/v1/completions", {"prompt": text(chance), "stream": chance.random() < 0.5, **options(chance)}


def chat(chance: random.Random) -> tuple[str, Any]:
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": text(chance, 20)} for i in range(chance.choice([1, 3, 5]))
    ]
    body: dict[str, Any] = {"messages": messages, "stream": chance.random() < 0.5}
    if chance.random() < 0.4:
        function = {"name": f"f{chance.randrange(10**6)}", "parameters": leaving.schema(chance)}
        body["tools"] = [{"type": "function", "function": function}]
        body["tool_choice"] = chance.choice(["auto", "required"])
    return "/v1/chat/completions", body


def schema(chance: random.Random) -> tuple[str, Any]:
    described = {"type": "json_schema", "json_schema": {"name": "x", "schema": leaving.schema(chance)}}
    return "/v1/completions", {"prompt": "a", "response_format": described}


def grammar(chance: random.Random) -> tuple[str, Any]:
    word = f"w{chance.randrange(10**9)}"
    kinds = {
        "grammar": f'root ::= "{word}" rest+\nrest ::= [a-z] | "{word}" root?',
        "regex": f"({word}|[a-f]{{2,{chance.randint(3, 20)}}})+",
        "choice": [word, text(chance, 5)],
    }
    name = chance.choice(sorted(kinds))
    return "/v1/completions", {"prompt": "a", name: kinds[name]}


def tag(chance: random.Random) -> tuple[str, Any]:
    """Names tokens, of which each set has a compiler of its own."""
    tokens = chance.sample(range(300), chance.randint(1, 4))
    form = {"type": "sequence", "elements": [{"type": "token", "token": token} for token in tokens]}
    marked = {
        "type": "tag",
        "begin": f"<|{chance.randrange(10**6)}|>",
        "content": form,
        "end": chance.choice(["", "<|im_end|>"]),
    }
    return "/v1/completions", {"prompt": "a", "structural_tag": {"format": chance.choice([form, marked])}}


def count(chance: random.Random) -> tuple[str, Any]:
    """What needs no slot."""
    tokens = [chance.randrange(256) for _ in range(chance.randint(1, 50))]
    return chance.choice(
        [
            ("/tokenize", {"content": text(chance), "with_pieces": chance.random() < 0.5}),
            ("/detokenize", {"tokens": tokens}),
            ("/apply-template", {"messages": [{"role": "user", "content": text(chance)}]}),
        ]
    )


def embedding(chance: random.Random) -> tuple[str, Any]:
    return "/v1/embeddings", {"input": [text(chance, 20) for _ in range(chance.randint(1, 3))]}


Make = Callable[[random.Random], tuple[str, Any]]
KINDS: dict[str, Make] = {
    "completions": completion,
    "chats": chat,
    "schemas": schema,
    "grammars": grammar,
    "tags": tag,
    "counts": count,
    "embeddings": embedding,
}


class Growth(NamedTuple):
    first_mib: float
    last_mib: float
    num_ok: int
    failures: list[str]


def visit(port: int, make: Make, seeds: range) -> tuple[int, list[str]]:
    """How many requests were answered with 200, and the failures."""

    def body_of(seed: int) -> tuple[str, bytes]:
        path, body = make(random.Random(f"{make.__name__} {seed}"))
        return path, body if isinstance(body, bytes) else json.dumps(body).encode()

    statuses, failures = odd_bodies.visit(port, seeds, body_of)
    return statuses[200], failures


def clients(port: int, seeds: range) -> tuple[int, list[str]]:
    """Those that leave."""
    seen = leaving.visits(port, seeds, 8, 7)
    failures = [outcome for outcome in seen if outcome.startswith("refused")]
    return seen.total(), failures


def grow(specdec: pathlib.Path, kind: str, number: int, first: int = FIRST, seed: int = 1) -> Growth:
    with serving(specdec, *OPTIONS) as server:

        def run(seeds: range) -> tuple[int, list[str]]:
            return clients(server.port, seeds) if kind == LEAVING else visit(server.port, KINDS[kind], seeds)

        num_ok, failures = run(range(seed, seed + first))
        before = odd_bodies.resident_mib(server.process.pid)
        more, more_failures = run(range(seed + first, seed + number))
        if server.process.poll() is not None:
            return Growth(before, 0, num_ok, [*failures, *more_failures, "the server ended"])
        return Growth(before, odd_bodies.resident_mib(server.process.pid), num_ok + more, failures + more_failures)


LEAVING = "clients that leave"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="of each kind")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, LEAVING], default=[*KINDS, LEAVING])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--specdec", type=pathlib.Path, default=pathlib.Path("build/default/specdec"))
    arguments = parser.parse_args()
    is_well = True
    for kind in arguments.kinds:
        found = grow(arguments.specdec, kind, arguments.requests, seed=arguments.seed)
        growth = found.last_mib - found.first_mib
        sizes = f"{found.first_mib:.0f} MiB after {FIRST}, {found.last_mib:.0f} MiB after {arguments.requests:,}"
        print(f"{kind}: {sizes}, {found.num_ok:,} answered, {len(found.failures)} failures", flush=True)
        for failure in found.failures[:5]:
            print("   ", failure, flush=True)
        is_kept = growth <= MOST_MIB and not found.failures
        is_well = is_well and is_kept
        if arguments.record and is_kept:
            figures.record("growth", requests=arguments.requests, kind=kind, memory_growth=int(growth * 2**20))
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
