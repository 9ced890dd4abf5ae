"""Random bodies that know the structure of each API: conversations of odd roles, parts, calls and results; fields with
values of right and wrong types; schemas, tools and formats.

    python -m tests.server.odd_bodies [--count 2000] [--seed 0] [--record] [--specdec build/default/specdec]

sends so many to each API of a server of its own and prints what came back. A 500, a reply that does not come, a server
that ends or that takes more than 64 MiB more after the first 500 is a finding. With --record, bodies without one are
added to tests/figures.jsonl, for docs/security.md.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import pathlib
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

WORDS = ["", " ", "a", "def f(", "\n", "<|im_end|>", "</think>", "<tool_call>", "\u00fc\U0001f642", "\x00", "a b " * 9]
NUMBERS: list[Any] = [0, 1, 2, 3, -1, 0.5, 1.0, 2.0, 1.5, 2**31, 2**53 + 1, 2**63, 2**64 - 1, 2**70, -(2**63), 1e300]
NAMES = ["f", "weather", "g h", "", "\u00fc", "f" * 70]
MOST_MIB = 64
ROLES = ["system", "developer", "user", "assistant", "tool", "function", "robot", "", "System"]


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        chosen = self.random.choice(choices)
        return chosen() if callable(chosen) else chosen

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def some(self, make: Callable[[], Any], most: int = 4) -> list[Any]:
        return [make() for _ in range(self.random.randrange(most + 1))]

    def text(self) -> str:
        return "".join(self.random.choices(WORDS, k=self.random.randrange(1, 4)))

    def anything(self, depth: int = 2) -> Any:
        scalar = self.one(None, True, False, self.text, lambda: self.random.choice(NUMBERS), "1", "-inf")
        if depth == 0 or self.often(0.6):
            return scalar
        if self.often(0.5):
            return self.some(lambda: self.anything(depth - 1))
        return {self.one(*NAMES, "type", "text"): self.anything(depth - 1) for _ in range(self.random.randrange(4))}

    def fields(self, table: dict[str, Any], most: int) -> dict[str, Any]:
        names = self.random.sample(sorted(table), self.random.randrange(min(most, len(table)) + 1))
        return {name: self.anything() if self.often(0.15) else self.one(*table[name]) for name in names}

    def odd(self, value: dict[str, Any]) -> dict[str, Any]:
        """At times with a field that is missing, null, of another type, or unknown."""
        if self.often(0.1) and value:
            name = self.random.choice(sorted(value))
            if self.often(0.4):
                del value[name]
            else:
                value[name] = self.anything()
        if self.often(0.03):
            value[self.one(*NAMES, "name", "id")] = self.anything()
        return value

    # ---- Parts

    def schema(self, depth: int = 2) -> Any:
        if depth == 0 or self.often(0.4):
            leaf = [
                {"type": "string"},
                {"type": "integer", "minimum": 3},
                {"enum": [1, "b"]},
                {"const": None},
                True,
                {},
            ]
            leaf += [{"type": "string", "pattern": "^a+$"}, {"type": "x"}, {"$ref": "#"}, {"type": ["string", "null"]}]
            return self.one(*leaf)
        name = self.one(*NAMES)
        return self.one(
            {"type": "object", "properties": {name: self.schema(depth - 1)}, "required": [name]},
            {"type": "object", "additionalProperties": self.schema(depth - 1)},
            {"type": "array", "items": self.schema(depth - 1), "maxItems": 2},
            {"anyOf": [self.schema(depth - 1), self.schema(depth - 1)]},
        )

    def arguments(self) -> Any:
        return self.one("{}", "", None, " ", "{", '{"a": 1}', "[1]", '"a"', "null", {}, {"a": 1}, {"a": {"b": [1]}}, 5)

    def call(self) -> dict[str, Any]:
        function = self.odd({"name": self.one(*NAMES), "arguments": self.arguments()})
        return self.odd({"id": self.one("call_1", "abcdef123", "", "2"), "type": "function", "function": function})

    def part(self) -> Any:
        types = [
            "text",
            "input_text",
            "output_text",
            "thinking",
            "refusal",
            "reasoning",
            "image_url",
            "input_audio",
            "",
        ]
        kind = self.one(*types)
        return self.odd({"type": kind, self.one("text", kind or "text"): self.text()})

    def content(self) -> Any:
        return self.one(self.text, self.text, self.text, None, [], lambda: self.some(self.part))

    def message(self) -> dict[str, Any]:
        role = self.random.choices(ROLES, [3, 2, 8, 8, 3, 1, 0.3, 0.2, 0.2])[0]
        message = {"role": role, "content": self.content()}
        if role == "assistant" and self.often(0.4):
            message["tool_calls"] = self.one(None, [], lambda: self.some(self.call, 3))
        if role == "assistant" and self.often(0.3):
            message[self.one("reasoning_content", "reasoning", "refusal", "thinking")] = self.one(None, self.text)
        if role == "tool":
            message["tool_call_id"] = self.one("call_1", "abcdef123", "2", None)
        if self.often(0.1):
            message["name"] = self.one(*NAMES)
        return self.odd(message)

    def tool(self) -> dict[str, Any]:
        function = {"name": self.one(*NAMES[:2], *NAMES), "description": self.text(), "parameters": self.schema()}
        return self.odd({"type": "function", "function": self.odd(function)})

    def format(self) -> Any:
        described = self.odd({"name": "x", "schema": self.schema(), "strict": self.one(True, False, None)})
        return self.one(
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_object", "schema": self.schema()},
            {"type": "json_schema", "json_schema": described},
            {"type": "json_schema", **described},
            {"type": "structural_tag", "triggers": ["a"], "structures": [{"begin": "a", "schema": {}, "end": "b"}]},
        )

    # ---- Bodies

    def options(self) -> dict[str, Any]:
        table: dict[str, Any] = {
            "stream": (True, False),
            "max_tokens": (1, 2, 3, 2.0, 0, -1),
            "temperature": (0, 0.7, 1.0, 2),
            "top_p": (0.5, 1.0),
            "top_k": (0, 5, 40.0, -1),
            "min_p": (0.1, 0),
            "seed": (1, 5.0, -1, 2**63 + 1, 2**64 - 1),
            "stop": ("a", ["a", "b"], [], [""]),
            "presence_penalty": (0.5, 0),
            "repeat_penalty": (1.1, 1.0),
            "logit_bias": ({}, {"5": 1}, {"a": -100}, [[5, False]], [["a", 1.0]]),
            "ignore_eos": (True,),
            "num_draft_tokens": (0, 3, "auto"),
            "reasoning_budget": (0, 1, -1),
            "allowed_token_ids": ([5, 6], []),
            "grammar": ('root ::= "a"', "", "root ::= b"),
            "regex": ("[ab]{3}", "(", "a\\b"),
            "json_schema": (self.schema, lambda: json.dumps(self.schema())),
            "prediction": ({"type": "content", "content": "a"}, {"type": "content", "content": [{"type": "text"}]}),
            "unknown_field": (1,),
        }
        return self.fields(table, 3)

    def conversation(self) -> dict[str, Any]:
        choices = ("auto", "none", "required", {"type": "function", "function": {"name": "f"}})
        table: dict[str, Any] = {
            "tools": (lambda: self.some(self.tool), []),
            "tool_choice": choices,
            "parallel_tool_calls": (True, False),
            "response_format": (self.format,),
            "chat_template_kwargs": ({"enable_thinking": False}, {"messages": 1}, {}),
            "reasoning_effort": ("low", "none", ""),
            "add_generation_prompt": (True, False),
            "continue_final_message": (True, False),
            "n": (1, 2, 1.0),
            "logprobs": (True, False),
            "top_logprobs": (2,),
            "stream_options": ({"include_usage": True},),
        }
        return {"messages": self.some(self.message, 7), **self.fields(table, 3), **self.options()}

    def completion(self) -> dict[str, Any]:
        prompts = ("def f(", [5, 6.0], ["a", "b"], [[5], "a"], {"prompt_string": "a"}, "a b " * 400, [], "")
        table: dict[str, Any] = {
            "echo": (True, False),
            "suffix": ("", "b"),
            "best_of": (1, 2),
            "n": (1, 2),
            "logprobs": (0, 3, None),
            "response_format": (self.format,),
            "structured_outputs": (lambda: {"json": self.schema()}, {"choice": ["a", "b"]}, {"regex": "a"}),
            "guided_choice": (["a", "b"], []),
        }
        return {"prompt": self.one(*prompts), **self.fields(table, 3), **self.options()}

    def item(self) -> dict[str, Any]:
        kinds = ["message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "x"]
        kinds += ["custom_tool_call_output", "local_shell_call", "local_shell_call_output", "web_search_call"]
        kind = self.one(*kinds, *kinds[:4])
        item: dict[str, Any] = {"type": kind}
        if kind == "message":
            item |= {"role": self.one(*ROLES[:5]), "content": self.content()}
        elif kind == "reasoning":
            item |= {"summary": [], "content": self.one(None, [], [{"type": "reasoning_text", "text": "a"}])}
        elif kind.endswith("_output"):
            item |= {"call_id": "1", "output": self.one(self.text, [], [{"type": "input_text", "text": "a"}], {"a": 1})}
        else:
            item |= {"call_id": "1", "name": self.one(*NAMES), "arguments": self.arguments(), "action": self.anything()}
        return self.odd(item)

    def response(self) -> dict[str, Any]:
        def tool() -> dict[str, Any]:
            kinds = ("function", "function", "custom", "web_search", "mcp", "namespace", "local_shell", "x")
            more = {"tools": [{"type": "function", "name": "g"}]}
            return self.odd({"type": self.one(*kinds), "name": self.one(*NAMES), "parameters": self.schema(), **more})

        table: dict[str, Any] = {
            "instructions": (self.text, None),
            "tools": (lambda: self.some(tool),),
            "tool_choice": ("auto", "required", {"type": "function", "name": "f"}),
            "text": (lambda: {"format": self.format()},),
            "reasoning": ({"effort": "low"}, {"summary": "auto"}, None),
            "include": (["message.output_text.logprobs"], []),
            "max_output_tokens": (1, 2),
            "previous_response_id": (None, "x"),
        }
        return {
            "input": self.one(self.text, lambda: self.some(self.item, 6)),
            **self.fields(table, 4),
            **self.options(),
        }

    def block(self) -> dict[str, Any]:
        return self.odd(
            self.one(
                {"type": "text", "text": self.text()},
                {"type": "thinking", "thinking": self.text(), "signature": ""},
                {"type": "redacted_thinking", "data": "a"},
                {"type": "tool_use", "id": "1", "name": self.one(*NAMES), "input": self.one({}, {"a": 1}, None)},
                {"type": "tool_result", "tool_use_id": "1", "content": self.one(self.text, None, [])},
                {"type": "image", "source": {}},
            )
        )

    def anthropic(self) -> dict[str, Any]:
        def message() -> dict[str, Any]:
            content = self.one(self.text, [], lambda: self.some(self.block))
            return self.odd(
                {"role": self.one("user", "user", "assistant", "assistant", "system", "x"), "content": content}
            )

        def tool() -> dict[str, Any]:
            return self.odd({"name": self.one(*NAMES), "input_schema": self.schema(), "description": self.text()})

        table: dict[str, Any] = {
            "system": (self.text, [], [{"type": "text", "text": "x-anthropic-billing-header: a"}]),
            "tools": (lambda: self.some(tool),),
            "tool_choice": ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "f"}, {"type": "none"}),
            "thinking": ({"type": "enabled", "budget_tokens": 2}, {"type": "disabled"}, {"type": "adaptive"}),
            "stop_sequences": (["a"], []),
            "output_config": ({"effort": "low"}, lambda: {"format": self.format()}),
            "metadata": ({"user_id": "a"},),
        }
        return {"max_tokens": 2, "messages": self.some(message, 6), **self.fields(table, 4), **self.options()}

    def ollama(self) -> dict[str, Any]:
        def message() -> dict[str, Any]:
            one: dict[str, Any] = {"role": self.one(*ROLES[:6]), "content": self.one(self.text, None, [])}
            if self.often(0.3):
                one["tool_calls"] = self.some(lambda: {"function": {"name": "f", "arguments": self.arguments()}}, 2)
            if self.often(0.2):
                one[self.one("thinking", "tool_name", "images")] = self.one(self.text, [], None)
            return self.odd(one)

        table: dict[str, Any] = {
            "tools": (lambda: self.some(self.tool),),
            "format": ("", "json", self.schema),
            "think": (True, False, "low"),
            "stream": (True, False),
            "keep_alive": (0, "5m", -1, "1h30m", "x"),
            "options": (lambda: {**self.options(), "num_ctx": self.one(*NUMBERS)}, {"num_predict": 2}),
            "logprobs": (True,),
            "top_logprobs": (2,),
        }
        text = {"prompt": self.text(), "system": self.text(), "raw": self.one(True, False)}
        return {**self.one(text, {"messages": self.some(message, 6)}), **self.fields(table, 4)}


# Each API's path and maker of bodies.
APIS: dict[str, Callable[[Maker], dict[str, Any]]] = {
    "/v1/chat/completions": Maker.conversation,
    "/v1/completions": Maker.completion,
    "/v1/responses": Maker.response,
    "/v1/messages": Maker.anthropic,
    "/api/chat": Maker.ollama,
    "/completion": Maker.completion,
}


def body_of(path: str, number: int) -> tuple[str, bytes]:
    """The path, perhaps a sibling's, and the body."""
    maker = Maker(number)
    body = maker.odd(APIS[path](maker))
    if path == "/api/chat" and "prompt" in body:
        path = "/api/generate"
    return path, json.dumps(body).encode()


def send(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
    """A status of 0: there was no whole reply."""
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return 0, repr(error).encode()


def is_failure(status: int, text: bytes) -> bool:
    """501: no tokens for completion in the middle; 503: the queue is full."""
    return status == 0 or (status >= 500 and status not in (501, 503)) or b'"code":500' in text


def visit(
    port: int, numbers: range, make: Callable[[int], tuple[str, bytes]], num_threads: int = 4
) -> tuple[collections.Counter[int], list[str]]:
    """Sends the bodies of these numbers. How often each status came, and the failures."""
    statuses: collections.Counter[int] = collections.Counter()
    failures: list[str] = []
    lock = threading.Lock()

    def work(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        for number in numbers[first::num_threads]:
            where, body = make(number)
            status, text = send(connection, where, body)
            with lock:
                statuses[status] += 1
                if is_failure(status, text):
                    failures.append(f"{where} {number}: {status} {text[:200]!r} {body[:1000]!r}")
        connection.close()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, failures


def run(port: int, path: str, numbers: range) -> tuple[collections.Counter[int], list[str]]:
    """`visit` with odd bodies for an API."""
    return visit(port, numbers, lambda number: body_of(path, number))


def resident_mib(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> int:
    from tests import figures
    from tests.server.running import serving

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="of each API")
    parser.add_argument("--seed", type=int, default=0, help="of the first body; the next ones follow")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--specdec", type=pathlib.Path, default=pathlib.Path("build/default/specdec"))
    arguments = parser.parse_args()
    code, count = 0, arguments.count
    for path in APIS:
        with serving(arguments.specdec, "-n", 3, "-np", 4, "--queue", 64, "-c", 512, "--cache-ram", 0) as server:
            first = min(500, count)
            statuses, failures = run(server.port, path, range(arguments.seed, arguments.seed + first))
            after_first = resident_mib(server.process.pid)
            more, more_failures = run(server.port, path, range(arguments.seed + first, arguments.seed + count))
            failures += more_failures
            is_alive = server.process.poll() is None and server.get("/health").status == 200
            size = resident_mib(server.process.pid) if is_alive else 0.0
            print(
                f"{path}: {dict(sorted((statuses + more).items()))}, {len(failures)} failures, alive: {is_alive}, ",
                end="",
            )
            print(f"resident after {first}: {after_first:.0f} MiB, after {count}: {size:.0f} MiB", flush=True)
            for failure in failures[:20]:
                print("   ", failure, flush=True)
            is_well = not failures and is_alive and size <= after_first + MOST_MIB
            code |= not is_well
            if arguments.record and is_well:
                figures.record("bodies", inputs=count, api=path)
                growth = int((size - after_first) * 2**20)
                figures.record("growth", requests=count, kind=f"bodies of {path}", memory_growth=growth)
    return code


if __name__ == "__main__":
    sys.exit(main())
