"""What an evaluation of a model does: choices are scored, one after another and together."""

from __future__ import annotations

import asyncio

import specdec_native as sd

CHOICES = [
    ("import os\nimport ", ["sys\n", "zq\n"]),
    ("def f(x):\n    return ", ["x\n", "import\n"]),
    ("for i in range(10):\n    print(", ["i)\n", "]\n"]),
    ("class A:\n    def __init__(", ["self", "while"]),
]


def answer_log_probability(score: sd.Score, prompt: str, gen: sd.Generator) -> float:
    """The score of what follows the prompt, where the tokens of both together begin with those of the prompt."""
    count = len(gen.tokenize(prompt))
    return sum(logprob for logprob in score.logprobs[count:] if logprob is not None)


async def together(gen: sd.Generator, texts: list[str]) -> list[sd.Score]:
    return await asyncio.gather(*(gen.ascore(text) for text in texts))


def check(gen: sd.Generator) -> None:
    texts = [prompt + choice for prompt, choices in CHOICES for choice in choices]
    alone = [gen.score(text) for text in texts]
    assert asyncio.run(together(gen, texts)) == alone, "the same bits under load"
    right = 0
    for i, (prompt, choices) in enumerate(CHOICES):
        values = [answer_log_probability(alone[2 * i + j], prompt, gen) for j in range(len(choices))]
        right += values[0] == max(values)
    assert right >= len(CHOICES) - 1
