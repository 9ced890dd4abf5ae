"""Pictures where a context ends, and with drafting heads, which read the rows of pictures (test_pictures.py has the
rest)."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from tests.models.projectors import FAMILIES, make_pair, make_pair_with_head, make_projector, random_picture
from tests.models.tiny_models import Block, block_drafter, damped, eagle3_head, with_mask

import specdec_native as sd

PROMPT = "def the self return"
WITHOUT_END = {1: float("-inf")}
PICTURE, OTHER = random_picture(40, 30), random_picture(40, 30, seed=1)

Answer = list[tuple[int, float]]


def answer(gen: sd.Generator, prompt: str = PROMPT, images: Any = PICTURE, **options: Any) -> Answer:
    options = {"max_tokens": 40, "temperature": 0, "logit_bias": WITHOUT_END, **options}
    pieces = gen.generate(prompt, images=images, **options).pieces
    return [(piece.token, piece.logprob) for piece in pieces]


class Files:
    def __init__(self, name: str, folder: pathlib.Path) -> None:
        pair = make_pair(name)
        self.target, self.projector = pair.write(folder)
        self.draft = pair.target.near(0.15).write(folder / "draft.gguf")

    def generator(self, draft: Any = None, **options: Any) -> sd.Generator:
        options = {"n_threads": 1, "num_draft_tokens": 4, **options}
        return sd.Generator(self.target, draft, mmproj=self.projector, **options)


@pytest.fixture(params=FAMILIES)
def files(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Files:
    return Files(request.param, tmp_path)


def test_the_context_ends(files: Files) -> None:
    """In a picture, or soon after one."""
    plain = files.generator(num_draft_tokens=0)
    answer(plain)
    length = plain.stats.prompt_tokens
    for context in range(length - 8, length + 24, 5):
        gens = [files.generator(draft, n_ctx=context) for draft in (None, files.draft)]
        if context <= length:
            for gen in gens:
                with pytest.raises(sd.ContextFull):
                    answer(gen)
                answer(gen, images=None, max_tokens=2)
        else:
            one, two = (answer(gen, max_tokens=100) for gen in gens)
            assert one == two and len(one) <= 32


@pytest.mark.parametrize("kind", ["mtp", "eagle3", "block", "biased block", "windowed block"])
@pytest.mark.parametrize("name", ["qwen35", "llava", "idefics3", "internvl"])
def test_heads_read_the_rows_of_pictures(kind: str, name: str, tmp_path: pathlib.Path) -> None:
    if (kind == "mtp") != (name == "qwen35"):
        pytest.skip("another kind of head")
    pair = make_pair_with_head() if kind == "mtp" else make_pair(name)
    target = pair.target
    draft: Any = "mtp"
    if kind == "eagle3":
        target = damped(target)
        draft = eagle3_head(target).write(tmp_path / "head.gguf")
    elif kind != "mtp":
        target = with_mask(target)
        block = Block(biased=kind == "biased block", windowed=kind == "windowed block")
        draft = block_drafter(target, block).write(tmp_path / "block.gguf")
    path, projector = target.write(tmp_path / "target.gguf"), pair.projector.write(tmp_path / "mmproj.gguf")

    def generator(draft: Any, **options: Any) -> sd.Generator:
        return sd.Generator(path, draft, mmproj=projector, n_threads=1, **options)

    plain, gen = generator(None, num_draft_tokens=0), generator(draft, num_draft_tokens=4)
    for images in (PICTURE, [PICTURE, OTHER]):
        expected = answer(plain, images=images)
        for num_draft_tokens in (1, 4, "auto"):
            assert answer(gen, images=images, num_draft_tokens=num_draft_tokens) == expected
    assert gen.stats.drafted > 0


def test_the_projector_next_to_a_model(tmp_path: pathlib.Path) -> None:
    """Of those that are as wide as the model, the one whose name is most like the model's."""
    target = make_pair("llava").target.write(tmp_path / "small.gguf")
    (tmp_path / "mmproj-0.gguf").write_bytes(b"GGUF, damaged")
    for seed, (name, width) in enumerate((("a", 96), ("large", 64), ("small", 64), ("small-wide", 96), ("tiny", 64))):
        make_projector("llava", width, seed).write(tmp_path / f"mmproj-{name}.gguf")
    named = {
        name: answer(sd.Generator(target, None, mmproj=tmp_path / f"mmproj-{name}.gguf", n_threads=1))
        for name in ("large", "small", "tiny")
    }
    assert answer(sd.Generator(target, None, n_threads=1)) == named["small"]
    assert named["small"] not in (named["large"], named["tiny"])
