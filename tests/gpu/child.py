"""A process that uses a device, for test_failures.py: python child.py MODEL DEVICE. Prints JSON, a line for each step;
a step that fails prints {"error": ...}."""

import json
import sys
from typing import Any

import specdec_native as sd

PROMPTS = ["the the of and to", "and that a to in of", "a is of the that in to and"]


def show(**step: Any) -> None:
    print(json.dumps(step), flush=True)


def load(model: str, **place: Any) -> sd.Generator | None:
    try:
        return sd.Generator(model, n_threads=1, n_ctx=512, auto_cache=False, **place)
    except sd.Error as error:
        show(error=str(error), loading=True)
        return None


def main(model: str, device: str) -> None:
    place: dict[str, Any] = {"n_gpu_layers": "all", "devices": device}
    generator = load(model, **place) or load(model, **place)  # as somebody would try again
    for prompt in PROMPTS if generator is not None else []:
        try:
            made = generator.generate(prompt, max_tokens=6, temperature=0.0)
            show(tokens=made.tokens, logprobs=[piece.logprob.hex() for piece in made.pieces])
        except sd.ModelError as error:
            show(error=str(error))
    del generator
    load(model, **place)
    on_cpu = load(model, n_gpu_layers=0)
    assert on_cpu is not None
    show(on_cpu=on_cpu.generate(PROMPTS[0], max_tokens=6, temperature=0.0).tokens)


main(*sys.argv[1:])
