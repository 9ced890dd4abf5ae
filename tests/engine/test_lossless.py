"""Output with a draft equals that without one: token for token when greedy, in distribution when sampling."""

import collections
import math

import numpy as np
import pytest

import specdec_native as sd
from specdec_native._options import StreamOptions, Verification

MAX_TOKENS = 48


@pytest.fixture(scope="module")
def gen() -> sd.Generator:
    return sd.Generator(n_threads=1)


@pytest.fixture(scope="module")
def plain_greedy(gen: sd.Generator, library_prompts: list[str]) -> list[list[int]]:
    return [gen.generate(p, max_tokens=MAX_TOKENS, temperature=0, num_draft_tokens=0).tokens for p in library_prompts]


@pytest.mark.parametrize("k", [1, 3, 7])
def test_greedy_with_a_draft_is_plain_greedy(
    gen: sd.Generator, library_prompts: list[str], plain_greedy: list[list[int]], k: int
) -> None:
    accepted = 0
    for prompt, expected in zip(library_prompts, plain_greedy, strict=True):
        completion = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0, num_draft_tokens=k)
        assert completion.tokens == expected
        accepted += completion.stats.accepted
    assert accepted > 100  # the drafts did take part


@pytest.mark.parametrize("draft", ["ngram", "suffix"])
def test_greedy_copying_is_plain_greedy(draft: str, library_prompts: list[str], plain_greedy: list[list[int]]) -> None:
    gen = sd.Generator(draft=draft, num_draft_tokens=7, n_threads=1)
    accepted = 0
    for prompt, expected in zip(library_prompts, plain_greedy, strict=True):
        completion = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0)
        assert completion.tokens == expected
        accepted += completion.stats.accepted
    assert accepted > 100


def test_suffix_decoding_knows_earlier_outputs(library_prompts: list[str], plain_greedy: list[list[int]]) -> None:
    gen = sd.Generator(draft="suffix", num_draft_tokens=7, n_threads=1)
    rates = []
    for _ in range(2):
        completions = [gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0) for prompt in library_prompts]
        assert [completion.tokens for completion in completions] == plain_greedy
        rates.append(sum(c.stats.tokens for c in completions) / sum(c.stats.target_calls for c in completions))
    assert rates[1] > 2 * rates[0] and rates[1] > 4


def test_a_prompt_longer_than_one_batch(library_prompts: list[str]) -> None:
    prompt = "\n".join(library_prompts)
    small, large = sd.Generator(n_batch=64, n_threads=1), sd.Generator(n_threads=1)
    tokens = large.tokenize(prompt)[:440]
    assert len(tokens) == 440
    expected = large.generate(tokens, max_tokens=60, temperature=0, num_draft_tokens=0).tokens
    for k in (0, 1, 3, 7):
        assert small.generate(tokens, max_tokens=60, temperature=0, num_draft_tokens=k).tokens == expected


def test_greedy_does_not_depend_on_threads(library_prompts: list[str], plain_greedy: list[list[int]]) -> None:
    gen = sd.Generator(n_threads=2)
    for prompt, expected in list(zip(library_prompts, plain_greedy, strict=True))[:8]:
        assert gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0).tokens == expected


# Chi-square of the first two tokens: speculative against plain, both sampled with fixed seeds.

PROMPT = "    def __init__(self, "
SAMPLES = 2000
ALPHA = 1e-6  # the seeds are fixed, but the models' bits are those of the instruction set: one chance on each


def first_two(
    gen: sd.Generator, k: int, first_seed: int, verification: Verification = "token"
) -> collections.Counter[tuple[int, ...]]:
    """max_tokens is K + 2, so that K is clipped in no cycle."""
    counts: collections.Counter[tuple[int, ...]] = collections.Counter()
    options: StreamOptions = {"temperature": 0.8, "top_k": 40, "top_p": 1.0, "min_p": 0.0, "num_draft_tokens": k}
    options |= {"max_tokens": k + 2, "verification": verification}
    for seed in range(first_seed, first_seed + SAMPLES):
        options["seed"] = seed
        with gen.stream(PROMPT, **options) as stream:
            counts[tuple(next(stream).token for _ in range(2))] += 1
    return counts


def chi_square_z(a: collections.Counter[tuple[int, ...]], b: collections.Counter[tuple[int, ...]]) -> float:
    """Standard normal deviate of the two-sample chi-square statistic (Wilson and Hilferty's cube root).

    Outcomes seen fewer than 10 times in all are pooled.
    """
    rare = {key for key in a | b if a[key] + b[key] < 10}
    cells = [(a[key], b[key]) for key in sorted((a | b).keys() - rare)]
    cells.append((sum(a[key] for key in rare), sum(b[key] for key in rare)))
    table = np.array([cell for cell in cells if sum(cell)], dtype=float)
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    statistic, freedom = ((table - expected) ** 2 / expected).sum(), len(table) - 1
    return float(((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom)))


CRITICAL = 4.7534  # standard normal quantile of 1 - ALPHA


@pytest.fixture(scope="module")
def sampler() -> sd.Generator:
    """On one thread: the models are small and the generations many."""
    return sd.Generator(n_threads=1)


@pytest.fixture(scope="module")
def plain_counts(sampler: sd.Generator) -> collections.Counter[tuple[int, ...]]:
    return first_two(sampler, 0, 10_000)


@pytest.mark.parametrize("verification", ["token", "block", "invariant"])
def test_sampling_with_a_draft_has_the_targets_law(
    sampler: sd.Generator, plain_counts: collections.Counter[tuple[int, ...]], verification: Verification
) -> None:
    speculative = first_two(sampler, 3, 50_000, verification)
    assert len(plain_counts) > 30  # the law is not trivial
    assert chi_square_z(plain_counts, speculative) < CRITICAL


def test_control_the_drafts_own_law_is_told_apart(
    draft_path: str, plain_counts: collections.Counter[tuple[int, ...]]
) -> None:
    draft = sd.Generator(draft_path, n_threads=1)
    assert chi_square_z(plain_counts, first_two(draft, 0, 90_000)) > CRITICAL


def test_with_keys_and_values_in_8_bits(library_prompts: list[str]) -> None:
    """Drafts are rejected and rolled back in such a cache, too."""
    gen, f16 = sd.Generator(kv_type="q8_0", suffix=False, n_threads=1), sd.Generator(n_threads=1)
    for prompt in library_prompts[:3]:
        expected = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0, num_draft_tokens=0)
        drafted = gen.generate(prompt, max_tokens=MAX_TOKENS, temperature=0, num_draft_tokens=7)
        assert drafted.tokens == expected.tokens
        assert 0 < drafted.stats.accepted < drafted.stats.drafted
        plain = f16.generate(prompt, max_tokens=MAX_TOKENS, temperature=0, num_draft_tokens=0)
        assert plain.pieces[0].logprob != expected.pieces[0].logprob  # it is another cache
