"""Speculative decoding on tiny pairs of many architectures: the output is the target's for any draft."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import struct

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.mxfp6_files import quantize
from tests.models.numpy_llama import F64Array
from tests.models.tiny_models import TRANSFORMERS, Vocabulary, make, random_tokens

import specdec_native as sd
from specdec_native import _core

PROMPT = "def the self return"
WITHOUT_END = {1: -math.inf}  # logit bias: texts of full length


def generator(target: pathlib.Path, draft: pathlib.Path | None = None, **options: int) -> sd.Generator:
    return sd.Generator(target, draft, n_threads=1, **{"num_draft_tokens": 7, **options})


def greedy(gen: sd.Generator, prompt: str | list[int] = PROMPT, max_tokens: int = 64) -> sd.Completion:
    return gen.generate(prompt, max_tokens=max_tokens, temperature=0, logit_bias=WITHOUT_END)


# ---- The same text with and without a draft


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_greedy_text_does_not_depend_on_the_draft(name: str, tmp_path: pathlib.Path) -> None:
    model = make(name)
    target = model.write(tmp_path / "target.gguf", GgmlType.F16)
    expected = greedy(generator(target)).tokens
    assert len(expected) == 64 and len(set(expected)) > 4
    other = make(name, seed=1).write(tmp_path / "other.gguf", GgmlType.F16)
    agreeing = model.near(0.15).write(tmp_path / "near.gguf", GgmlType.F16)
    accepted = []
    for draft in (other, agreeing):
        for num_draft_tokens in (1, 5):
            completion = greedy(generator(target, draft, num_draft_tokens=num_draft_tokens))
            assert completion.tokens == expected
            accepted.append(completion.stats.accepted)
    assert 0 < accepted[-1] < completion.stats.drafted


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_model_accepts_all_of_its_own_drafts(name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """All, because its logits have the same bits one by one and in a pass of 6."""
    f16 = make(name).write(tmp_path / "m.gguf", GgmlType.F16)
    for path in (f16, quantize(specdec, f16)):
        gen = generator(path, path, num_draft_tokens=5, suffix=False)
        expected = greedy(generator(path)).tokens
        assert greedy(gen).tokens == expected and gen.stats.acceptance_rate == 1
        for seed in (1, 2):
            stats = gen.generate(PROMPT, max_tokens=64, temperature=0.8, seed=seed, logit_bias=WITHOUT_END).stats
            assert stats.drafted >= 50 and stats.acceptance_rate == 1


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_mxfp6_targets(name: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    f16 = make(name).write(tmp_path / "m.gguf", GgmlType.F16)
    target = quantize(specdec, f16)
    expected = greedy(generator(target)).tokens
    drafts = [f16, quantize(specdec, f16, "--scale", "ocp", name="ocp")]
    for draft in drafts:
        completion = greedy(generator(target, draft, num_draft_tokens=5))
        assert completion.tokens == expected
        assert completion.stats.acceptance_rate > 0.1


# ---- Sliding windows, short contexts


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_rolling_back_past_a_sliding_window(name: str, tmp_path: pathlib.Path) -> None:
    model = make(name)
    assert model.shape.window == 48
    target = model.write(tmp_path / "target.gguf")
    draft = model.near(0.15).write(tmp_path / "draft.gguf")
    tokens = random_tokens(model, 300)
    gen = generator(target, draft, num_draft_tokens=7)
    assert greedy(gen, tokens[:200], 150).tokens == greedy(generator(target), tokens[:200], 150).tokens
    assert 0 < gen.stats.acceptance_rate < 1
    # A shorter prefix: cells that left the window 100 tokens ago are in it again.
    again = greedy(gen, tokens[:160] + tokens[210:220], 30)
    assert again.stats.prompt_cached_tokens == 160
    assert again.tokens == greedy(generator(target), tokens[:160] + tokens[210:220], 30).tokens


def test_the_drafts_context_is_shorter(tmp_path: pathlib.Path) -> None:
    model = make("qwen3")
    target = model.write(tmp_path / "target.gguf")
    short = dataclasses.replace(model.near(0.15), shape=dataclasses.replace(model.shape, context=64))
    draft = short.write(tmp_path / "draft.gguf")
    gen = generator(target, draft, n_ctx=128)
    completion = greedy(gen, max_tokens=1000)
    assert completion.finish_reason == "context"
    assert len(gen.tokenize(PROMPT)) + len(completion.tokens) == 128 + 1
    assert completion.tokens == greedy(generator(target, n_ctx=128), max_tokens=1000).tokens
    assert any(piece.from_draft for piece in completion.pieces[:40])
    assert any(piece.from_draft for piece in completion.pieces[80:])  # it reads its window again
    with pytest.raises(sd.ContextFull, match=r"129 tokens.*holds 128"):
        gen.generate(random_tokens(model, 129))
    assert greedy(gen, max_tokens=1000).tokens == completion.tokens


# ---- Vocabularies


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make("llama").write(tmp_path_factory.mktemp("target") / "target.gguf")


@pytest.mark.parametrize(("vocabulary", "message"), [
    (Vocabulary(renamed={100: "zzz"}), 'token 100 is "zzz" in the draft and "b" in the target'),
    (Vocabulary(renamed={100: "zzz", 30: "yyy"}), 'token 30 is "yyy" in the draft'),
    (Vocabulary(model="llama"), "the draft's tokenizer is SentencePiece BPE, the target's byte-level BPE"),
    (Vocabulary(bos=2), "the BOS token is 2 in the draft and 0 in the target"),
    (Vocabulary(eos=0), "the EOS token is 0 in the draft and 1 in the target"),
    (Vocabulary(adds_bos=False), "only one of the two begins every text with BOS"),
    (Vocabulary(size=100, renamed={99: "zzz"}), 'token 99 is "zzz" in the draft'),
])  # fmt: skip
def test_other_vocabularies_are_rejected(
    vocabulary: Vocabulary, message: str, target: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    draft = make("llama", vocabulary=vocabulary).write(tmp_path / "draft.gguf")
    with pytest.raises(sd.VocabularyMismatch) as error:
        generator(target, draft)
    assert message in str(error.value) and "same model family" in str(error.value)


@pytest.mark.parametrize("size", [258 + 16, 320, 4096])  # of the target: 288, and it uses all of them here
def test_drafts_with_more_or_fewer_padding_ids(size: int, target: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other, model = make("llama", vocabulary=Vocabulary(size=size)), make("llama").near(0.15)
    rows = min(size, model.vocabulary.size)
    for name in ("token_embd.weight", "output.weight"):
        other.tensors[name][:rows] = model.tensors[name][:rows]
    draft = other.with_tensors(
        {name: t for name, t in model.tensors.items() if name not in ("token_embd.weight", "output.weight")}
    )
    gen = generator(target, draft.write(tmp_path / "draft.gguf"))
    assert greedy(gen).tokens == greedy(generator(target)).tokens
    assert gen.stats.accepted > 0
    beyond = list(range(270, 288))
    assert greedy(gen, beyond).tokens == greedy(generator(target), beyond).tokens
    bias = {**WITHOUT_END, 287: 3.0}
    sampled = gen.generate(beyond, max_tokens=64, temperature=1.5, seed=1, logit_bias=bias, repeat_penalty=1.1)
    assert 274 < max(sampled.tokens) < 288 and gen.stats.accepted > 0


# ---- Models whose cache cannot be truncated


# ---- MXFP6 files that were tampered with


def with_rows(data: bytes, tensor: str, rows: int) -> bytes:
    at = data.index(struct.pack("<Q", len(tensor)) + tensor.encode()) + 8 + len(tensor) + 4 + 8
    return data[:at] + struct.pack("<Q", rows) + data[at + 8 :]


def with_layout(data: bytes, layout: int) -> bytes:
    at = data.index(b"mxfp6.layout") + len("mxfp6.layout") + 4
    return data[:at] + struct.pack("<I", layout) + data[at + 4 :]


def test_tampered_mxfp6_files_are_rejected(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make("llama")
    path = quantize(specdec, model.write(tmp_path / "m.gguf"))
    data = path.read_bytes()
    tensor = "blk.1.ffn_up.weight"
    tampered = {
        r"mxfp6\.layout": with_layout(data, 2),
        r"truncated: tensor \"[a-z0-9_.]+\"": data[:-1000],
        rf"tensor \"{tensor}\" has 24 rows": with_rows(data, tensor, 24),
        rf"\"{tensor}\"": with_rows(data, tensor, 1 << 40),
    }
    for message, bad in tampered.items():
        path.write_bytes(bad)
        with pytest.raises(sd.ModelError, match=message):
            generator(path)
    path.write_bytes(data)
    assert greedy(generator(path)).tokens


# ---- The bundled pair


@pytest.fixture(scope="module")
def mxfp6_pair(
    specdec: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("mxfp6")
    paths = [folder / path.name for path in (target_path, draft_path)]
    for path, source in zip(paths, (target_path, draft_path), strict=True):
        path.symlink_to(source)
    return [quantize(specdec, path) for path in paths]


def probabilities(path: pathlib.Path, tokens: list[int], temperature: float) -> F64Array:
    logits: F64Array = _core.evaluate(str(path), tokens, [64], 1).astype(np.float64) / temperature
    weights: F64Array = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights


def test_mxfp6_accepts_what_f16_accepts(
    mxfp6_pair: list[pathlib.Path], target_path: pathlib.Path, draft_path: pathlib.Path, library_prompts: list[str]
) -> None:
    """The probability that a draft is accepted, sum of min(target, draft), at every place of the same 30 texts."""
    gen = generator(target_path, draft_path)
    pairs = [(target_path, draft_path), (mxfp6_pair[0], mxfp6_pair[1]), (mxfp6_pair[0], draft_path)]
    acceptance: list[list[F64Array]] = [[] for _ in pairs]
    for seed, prompt in enumerate(library_prompts):
        text = gen.tokenize(prompt)
        continued = text + gen.generate(prompt, max_tokens=48, temperature=0.8, seed=seed).tokens
        for (target, draft), rates in zip(pairs, acceptance, strict=True):
            both = np.minimum(probabilities(target, continued, 0.8), probabilities(draft, continued, 0.8))
            rates.append(both.sum(-1)[len(text) - 1 : -1])
    f16, *others = [np.concatenate(rates) for rates in acceptance]
    assert len(f16) > 1000 and 0.4 < f16.mean() < 0.7
    for other in others:
        difference = other - f16
        error = difference.std() / math.sqrt(len(difference))
        assert error < 0.005
        assert abs(difference.mean()) < 0.02 - 2 * error


def test_mxfp6_pair_greedily(mxfp6_pair: list[pathlib.Path], library_prompts: list[str]) -> None:
    target, draft = mxfp6_pair
    gen, alone = generator(target, draft), generator(target)
    for prompt in library_prompts[:6]:
        text = gen.generate(prompt, max_tokens=48, temperature=0)
        assert text.tokens == alone.generate(prompt, max_tokens=48, temperature=0).tokens
        assert text.stats.accepted > 0
