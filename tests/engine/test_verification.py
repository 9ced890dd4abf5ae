"""Verification and drafting modes with the bundled models: one law, and in the invariant mode one text."""

import inspect
import pathlib
import subprocess
import typing

import pytest

import specdec_native as sd
from specdec_native import StreamOptions

MAX_TOKENS = 32


@pytest.fixture(scope="module", params=["F16", "MXFP6"])
def target(
    request: pytest.FixtureRequest, specdec: pathlib.Path, target_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    if request.param == "F16":
        return target_path
    out = tmp_path_factory.mktemp("mxfp6") / "target.gguf"
    subprocess.run([specdec, "quantize", target_path, out], check=True, capture_output=True, timeout=120)
    return out


def test_a_seed_gives_one_text_whatever_is_drafted(
    target: pathlib.Path, draft_path: pathlib.Path, library_prompts: list[str]
) -> None:
    alone, drafted = sd.Generator(target, n_threads=1), sd.Generator(target, draft_path, n_threads=1)
    ngram = sd.Generator(target, "ngram", n_threads=1)
    accepted = different = 0
    for seed, prompt in enumerate(library_prompts[:4]):
        options: StreamOptions = {"max_tokens": MAX_TOKENS, "seed": seed, "verification": "invariant"}
        if seed % 2:
            options |= {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}
        expected = alone.generate(prompt, **options).tokens
        for k in (0, 1, 3, 7):
            assert drafted.generate(prompt, num_draft_tokens=k, **options).tokens == expected
            accepted += drafted.stats.accepted
        assert drafted.generate(prompt, drafting="argmax", **options).tokens == expected
        assert ngram.generate(prompt, **options).tokens == expected
        by_token: StreamOptions = {**options, "verification": "token"}
        different += drafted.generate(prompt, **by_token).tokens != expected
    assert accepted > 80  # the drafts did take part
    assert different == 4  # control: not so in the other modes


@pytest.mark.parametrize("verification", ["block", "invariant"])
@pytest.mark.parametrize("drafting", ["sampled", "argmax"])
def test_greedy_is_unaffected(
    library_prompts: list[str],
    verification: typing.Literal["block", "invariant"],
    drafting: typing.Literal["sampled", "argmax"],
) -> None:
    gen = sd.Generator(n_threads=1)
    for prompt in library_prompts[:3]:
        expected = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens
        completion = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0, verification=verification, drafting=drafting)
        assert completion.tokens == expected


def test_options_of_generate_are_the_arguments_of_stream() -> None:
    parameters = list(inspect.signature(sd.Generator.stream).parameters.values())
    keywords = {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keywords == {name: hint.__forward_arg__ for name, hint in StreamOptions.__annotations__.items()}
    with pytest.raises(TypeError, match="temperatur"):
        sd.Generator().generate("x", temperatur=1)  # type: ignore[call-arg]


def test_unknown_modes() -> None:
    gen = sd.Generator()
    with pytest.raises(ValueError, match='verification is "blok"; it must be token, block or invariant'):
        gen.generate("x", verification="blok")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='drafting is "greedy"; it must be sampled or argmax'):
        gen.generate("x", drafting="greedy")  # type: ignore[arg-type]
