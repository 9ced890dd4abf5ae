"""The bundled projector reads digits: the answer follows the picture, with any draft and any number of drafts."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import specdec_native as sd

ROOT = pathlib.Path(__file__).parents[2]
PROJECTOR = ROOT / "models" / "stdlib-digits-mmproj-f16.gguf"
QUESTION = "Which digit?"
WITHOUT_END = {0: float("-inf")}
# Held out of training, two of each: a line is a row, a hexadecimal digit a pixel.
DIGITS = json.loads((ROOT / "tests" / "models" / "digits.json").read_text())


def picture(digit: dict[str, Any]) -> np.ndarray:
    return np.array([[int(pixel, 16) for pixel in row] for row in digit["pixels"]], np.uint8) * 17


def generator(target: pathlib.Path, draft: Any = None, **options: Any) -> sd.Generator:
    return sd.Generator(target, draft, mmproj=PROJECTOR, n_threads=1, **options)


@pytest.fixture(scope="module")
def plain(target_path: pathlib.Path) -> sd.Generator:
    return generator(target_path, num_draft_tokens=0)


def answer(gen: sd.Generator, images: Any, prompt: str = QUESTION, **options: Any) -> list[tuple[int, float]]:
    options = {"max_tokens": 24, "temperature": 0, "logit_bias": WITHOUT_END, **options}
    return [(piece.token, piece.logprob) for piece in gen.generate(prompt, images=images, **options).pieces]


def test_the_answer_is_the_digit_in_the_picture(plain: sd.Generator) -> None:
    right = 0
    for digit in DIGITS:
        completion = plain.generate(QUESTION, images=picture(digit), max_tokens=8, temperature=0)
        right += completion.text == f" {digit['digit']}" and completion.finish_reason == "stop"
    assert right >= 18


def test_the_token_that_begins_every_text_comes_before_the_picture(plain: sd.Generator) -> None:
    prompt = plain.generate(QUESTION, images=picture(DIGITS[0]), max_tokens=1).stats.prompt_tokens
    assert prompt == 16 + len(plain.tokenize("\n" + QUESTION))  # 16 patches


@pytest.mark.parametrize("scale", [1, 4, 12])
def test_pictures_of_any_size_and_colour(scale: int, plain: sd.Generator) -> None:
    right = 0
    for digit in DIGITS[::2]:
        large = np.kron(picture(digit), np.ones((scale, scale), np.uint8))
        for pixels in (large, 255 - large):
            right += plain.generate(QUESTION, images=pixels, max_tokens=1, temperature=0).text == f" {digit['digit']}"
    assert right >= 17


@pytest.mark.parametrize("draft", ["model", "head", "suffix"])
@pytest.mark.parametrize("num_draft_tokens", [1, 4, "auto"])
def test_no_draft_changes_the_answer(
    draft: str, num_draft_tokens: Any, plain: sd.Generator, target_path: pathlib.Path, draft_path: pathlib.Path
) -> None:
    source = {"model": draft_path, "head": ROOT / "models" / "stdlib-head-f16.gguf", "suffix": "suffix"}[draft]
    gen = generator(target_path, source, num_draft_tokens=num_draft_tokens)
    for digit in DIGITS[::5]:
        pixels = picture(digit)
        for prompt in (QUESTION, "# The digit in the picture\ndigit ="):
            assert answer(gen, pixels, prompt) == answer(plain, pixels, prompt)
    assert gen.stats.drafted > 0 or num_draft_tokens == "auto"


@pytest.mark.filterwarnings("ignore:the model has no chat template")
def test_several_pictures(target_path: pathlib.Path, draft_path: pathlib.Path) -> None:
    """Each is read at its place in a conversation."""
    gen = generator(target_path, draft_path)
    right = 0
    for one, other in zip(DIGITS[:-2:2], DIGITS[3::2], strict=True):
        messages: list[Any] = []
        for digit in (one, other):
            image = {"type": "image", "image": picture(digit)}
            messages.append({"role": "user", "content": [image, {"type": "text", "text": QUESTION}]})
            content = gen.chat(messages, temperature=0, max_tokens=2).text
            messages.append({"role": "assistant", "content": content})
            right += content.strip() == str(digit["digit"])
    assert right >= 16  # of 18
