"""A model that always writes the same answer, piece by piece, in a Hermes template: reasoning, text and a tool call."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import numpy as np
from tests.models.tiny_models import Shape, Vocabulary, make

ARGUMENTS = {"city": "Paris", "days": 3}
# In pieces that differ, as a token is followed by the same token always. The first follows a line break.
PIECES = [
    "<think>",
    "Hm.",
    "</think>",
    "I lo",
    "ok.",
    "<tool_call>",
    '{"name": "wea',
    'ther", "argu',
    'ments": {"ci',
    'ty": "Pa',
]
PIECES += ['ris", "days"', ": 3", "}}", "</tool_call>"]
TEMPLATE = """{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{%- for message in messages %}{{ "<|" + message.role + "|>\\n" }}
{%- if message.reasoning_content %}{{ "<think>" + message.reasoning_content + "</think>" }}{% endif %}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls %}{{ '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ "}</tool_call>" }}{% endfor %}{{ "<|end|>\\n" }}{% endfor %}
{%- if add_generation_prompt %}{{ "<|assistant|>\\n" }}{% endif %}"""
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
MESSAGES: Any = [{"role": "user", "content": "How is the weather?"}]
FIRST_PIECE = 2 + 128  # the ids of bytes that are not ASCII are renamed


START, END = "\n", "</s>"
Edge = tuple[str, str, float]  # after the first piece, the second has this logit


def chain(pieces: list[str]) -> list[Edge]:
    return [(last, following, 10) for last, following in zip([START, *pieces], [*pieces, END], strict=True)]


def write_chain(path: pathlib.Path, edges: list[Edge], control: tuple[str, ...] = ()) -> None:
    """A llama whose next token depends on the last one only: layers add nothing, embeddings are one-hot. A piece of one
    ASCII character is what ends a prompt with it."""
    width = 320
    in_gpt2 = str.maketrans({" ": "\u0120", "\n": "\u010a"})
    ids = {START: 2 + ord("\n")}
    names: dict[int, str] = {}
    for piece in dict.fromkeys(piece for edge in edges for piece in edge[:2]):
        if len(piece) == 1 and piece.isascii():
            ids[piece] = 2 + ord(piece)
        elif piece != END:
            ids[piece] = FIRST_PIECE + len(names)
            names[ids[piece]] = piece.translate(in_gpt2)
    vocabulary = replace(Vocabulary(), renamed=names, chat_template=TEMPLATE)
    vocabulary = replace(vocabulary, control=tuple(ids[piece] for piece in control))
    ids[END] = vocabulary.eos
    model = make("llama", shape=replace(Shape(), width=width), vocabulary=vocabulary)
    for name, tensor in model.tensors.items():
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            tensor[:] = 0
    model.tensors["token_embd.weight"][:] = np.eye(vocabulary.size, width)
    output = model.tensors["output.weight"]
    output[:] = 0
    for last, following, logit in edges:
        output[ids[following], ids[last]] = logit
    model.tensors["output_norm.weight"][:] = 1
    model.write(path)


# Edges of a model that reasons without end, and answers once it is stopped.
MUSING: list[Edge] = [
    (START, "<think>", 10),
    ("<think>", "Hm.", 10),
    ("Hm.", "Well ", 10),
    ("Well ", "Hm.", 10),
    (">", "ok.", 10),  # the mark that ends the reasoning, in the vocabulary's own tokens
    ("ok.", END, 10),
]
# Edges of a model that would rather end its text than call, and rather call `weather` than `forecast`. The marks of its
# calls are control tokens.
_HESITANT_PIECES = ["I lo", "ok.", "<tool_call>", '{"name": "', "forecast", '", "argu', 'ments": {"ci']
_HESITANT_PIECES += ['ty": "Pa', 'ris"', "}}", "</tool_call>"]
HESITANT: list[Edge] = [
    *chain(_HESITANT_PIECES),
    (START, "<tool_call>", 5),
    ("ok.", END, 20),
    ('{"name": "', "weather", 20),
    ("weather", '", "argu', 10),
    ("</tool_call>", END, 10),
]
HESITANT_CONTROL = ("<tool_call>", "</tool_call>")
FORECAST: Any = {"type": "function", "function": {"name": "forecast", "parameters": TOOLS[0]["function"]["parameters"]}}
FUNCTION: Any = {"type": "function", "function": {"name": "forecast"}}
