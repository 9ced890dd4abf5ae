"""Verification and drafting modes with the bundled models: one distribution, and in the invariant mode one output
per seed."""

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
    request: pytest.FixtureRequest,
    specdec: pathlib.Path,
    target_path: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
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
    copying = [sd.Generator(target, draft, n_threads=1) for draft in ("ngram", "suffix")]
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
        assert [gen.generate(prompt, **options).tokens for gen in copying] == [expected, expected]
        by_token: StreamOptions = {**options, "verification": "token"}
        different += drafted.generate(prompt, **by_token).tokens != expected
    assert accepted > 80  # the drafts did take part
    assert different == 4  # control: not so in the other modes


def test_a_seed_repeats_its_text_by_default(
    target: pathlib.Path, draft_path: pathlib.Path, library_prompts: list[str]
) -> None:
    """Although "auto" chooses drafts by measured times and by what it learnt from earlier generations."""
    alone, drafted = sd.Generator(target, n_threads=1), sd.Generator(target, draft_path, n_threads=1)
    many = sd.Generator(target, draft_path, n_threads=1, max_sequences=3)
    prompts = library_prompts[:4]
    expected = [
        alone.generate(prompt, max_tokens=MAX_TOKENS, seed=seed, verification="invariant").tokens
        for seed, prompt in enumerate(prompts)
    ]
    lengths = set()
    for _ in range(2):
        completions = [
            drafted.generate(prompt, max_tokens=MAX_TOKENS, seed=seed) for seed, prompt in enumerate(prompts)
        ]
        requests: list[sd.Request] = [{"prompt": prompt, "seed": seed} for seed, prompt in enumerate(prompts)]
        completions += many.generate_many(requests, max_tokens=MAX_TOKENS)
        assert [c.tokens for c in completions] == 2 * expected
        assert {c.verification for c in completions} == {"invariant"}
        lengths.add(tuple(c.stats.drafted for c in completions[:4]))
        for seed in range(8):  # drafts are always rejected, which changes the draft lengths of later generations
            drafted.generate(
                prompts[0], max_tokens=MAX_TOKENS, temperature=5.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed
            )
    assert len(lengths) == 2
    # Control: if "block" is requested, it runs, and its output depends on K.
    for seed, prompt in enumerate(prompts):
        options: StreamOptions = {"max_tokens": MAX_TOKENS, "seed": seed, "verification": "block"}
        texts = [drafted.generate(prompt, num_draft_tokens=k, **options).tokens for k in (0, 2, 7)]
        assert drafted.verification == "block" and texts[0] != texts[1] != texts[2] != texts[0]
        assert drafted.generate(prompt, **options).verification == "block"


def test_a_seed_repeats_its_text_with_drafts_from_earlier_outputs(
    target: pathlib.Path, library_prompts: list[str]
) -> None:
    options: StreamOptions = {"max_tokens": MAX_TOKENS, "temperature": 0.5}
    fresh = [sd.Generator(target, "suffix", n_threads=1) for _ in range(2)]
    many = sd.Generator(target, "suffix", n_threads=1, max_sequences=3)
    for verification, k in (("invariant", "auto"), ("invariant", 5), ("block", 5), ("token", 5)):
        options |= {"verification": verification, "num_draft_tokens": k}  # type: ignore[typeddict-item]
        requests: list[sd.Request] = [
            {"prompt": prompt, "seed": seed} for seed, prompt in enumerate(library_prompts[:4])
        ]
        expected = [fresh[0].generate(**request, **options).tokens for request in requests]
        assert [
            fresh[0].generate(**request, **options).tokens for request in requests
        ] == expected  # knows the first outputs
        assert [fresh[1].generate(**request, **options).tokens for request in reversed(requests)] == expected[::-1]
        assert [c.tokens for c in many.generate_many(requests, **options)] == expected


def test_which_verification_runs(target_path: pathlib.Path, draft_path: pathlib.Path) -> None:
    plain, drafted = sd.Generator(target_path), sd.Generator(target_path, draft_path)
    fixed, ngram = sd.Generator(target_path, draft_path, num_draft_tokens=3), sd.Generator(target_path, "ngram")
    cases: list[tuple[sd.Generator, StreamOptions, str]] = [
        (drafted, {"seed": 0}, "invariant"),
        (drafted, {}, "block"),
        (drafted, {"seed": 0, "num_draft_tokens": 3}, "invariant"),
        (drafted, {"seed": 0, "num_draft_tokens": 0}, "invariant"),
        (drafted, {"seed": 0, "temperature": 0}, "invariant"),
        (drafted, {"seed": 0, "drafting": "argmax"}, "invariant"),
        (drafted, {"seed": 0, "verification": "block"}, "block"),
        (drafted, {"seed": 0, "verification": "token"}, "token"),
        (drafted, {"verification": "invariant"}, "invariant"),
        (drafted, {"seed": 0, "verification": "auto"}, "invariant"),
        (plain, {"seed": 0}, "invariant"),
        (plain, {}, "block"),
        (ngram, {"seed": 0}, "invariant"),
        (fixed, {"seed": 0}, "invariant"),
        (fixed, {"seed": 0, "num_draft_tokens": "auto"}, "invariant"),
    ]
    for gen, options, expected in cases:
        assert gen.generate("x", max_tokens=1, **options).verification == gen.verification == expected, options
        assert [c.verification for c in gen.generate_many(["x"], max_tokens=1, **options)] == [expected], options
    mixed: list[sd.Request] = [{"prompt": "x", "seed": 1}, {"prompt": "x"}, {"prompt": ""}]
    assert [c.verification for c in drafted.generate_many(mixed, max_tokens=1)] == ["invariant", "block", None]


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
        completion = gen.generate(
            prompt, max_tokens=MAX_TOKENS, temperature=0, verification=verification, drafting=drafting
        )
        assert completion.tokens == expected


def test_options_of_generate_are_the_arguments_of_stream() -> None:
    parameters = list(inspect.signature(sd.Generator.stream).parameters.values())
    keywords = {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keywords == {name: hint.__forward_arg__ for name, hint in StreamOptions.__annotations__.items()}
    with pytest.raises(TypeError, match="temperatur"):
        sd.Generator().generate("x", temperatur=1)  # type: ignore[call-arg]


def test_unknown_modes() -> None:
    gen = sd.Generator()
    with pytest.raises(ValueError, match='verification is "blok"; it must be auto, token, block or invariant'):
        gen.generate("x", verification="blok")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='drafting is "greedy"; it must be sampled or argmax'):
        gen.generate("x", drafting="greedy")  # type: ignore[arg-type]
