"""Vocabularies that cannot represent every text are errors of the file."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
from parsed_gguf import Parsed
from tests.models.tiny_models import Vocabulary, make

import specdec_native as sd


def sentencepiece(byte_tokens: int) -> Vocabulary:
    """The letters, and tokens for the first bytes."""
    texts = [f"<0x{byte:02X}>" for byte in range(byte_tokens)] + ["\u2581", *map(chr, range(ord("a"), ord("z") + 1))]
    return Vocabulary(model="llama", size=2 + len(texts), merges=(), renamed=dict(enumerate(texts, start=2)))


def model(tmp_path: pathlib.Path, vocabulary: Vocabulary) -> pathlib.Path:
    return make("llama", vocabulary=vocabulary).write(tmp_path / "m.gguf")


def test_sentencepiece_without_bytes_has_only_its_own_characters(tmp_path: pathlib.Path) -> None:
    gen = sd.Generator(model(tmp_path, sentencepiece(byte_tokens=0)), draft=None, n_ctx=64)
    for use in (gen.tokenize, gen.generate):
        with pytest.raises(
            sd.ModelError, match=r"m\.gguf: .*SentencePiece.* no tokens for single bytes.* convert the model"
        ):
            use("caf\u00e9")
    assert gen.generate("cafe", max_tokens=2, temperature=0).finish_reason == "length"


def test_sentencepiece_with_bytes_has_all_texts(tmp_path: pathlib.Path) -> None:
    gen = sd.Generator(model(tmp_path, sentencepiece(byte_tokens=256)), draft=None, n_ctx=64)
    assert gen.tokenize("caf\u00e9")[-2:] == [2 + 0xC3, 2 + 0xA9]
    assert gen.generate("caf\u00e9", max_tokens=2, temperature=0).finish_reason == "length"


def test_tokens_that_the_tokenizer_needs(tmp_path: pathlib.Path) -> None:
    """llama.cpp asserts, in the middle of a text, that there is a BOS token to begin with."""
    path = model(tmp_path, dataclasses.replace(sentencepiece(byte_tokens=256), model="t5"))
    parsed = Parsed.of(path.read_bytes())
    del parsed.entries["tokenizer.ggml.bos_token_id"]
    path.write_bytes(parsed.build())
    gen = sd.Generator(path, draft=None, n_ctx=64)
    for use in (gen.tokenize, gen.generate):
        with pytest.raises(sd.ModelError, match=r"m\.gguf: llama\.cpp cannot tokenize .*\(unigram\): .*special_bos"):
            use("cafe")


def test_rwkv_needs_every_byte(tmp_path: pathlib.Path) -> None:
    """Without them its tokenizer may never come to an end."""
    texts = {i: f"\\x{byte:02x}" for i, byte in enumerate(range(256), start=2)}
    rwkv = Vocabulary(model="rwkv", size=258, merges=(), renamed=texts, adds_bos=False)
    assert sd.Generator(model(tmp_path, rwkv), draft=None, n_ctx=64).tokenize("caf\u00e9!") == [
        2 + b for b in "caf\u00e9!".encode()
    ]
    for byte in (0x00, ord("a"), 0xE9):
        some = dataclasses.replace(rwkv, renamed={**texts, 2 + byte: "ab"})
        with pytest.raises(
            sd.ModelError, match=rf'"tokenizer.ggml.tokens" has no token for byte 0x{byte:02x}, which RWKV .*convert'
        ):
            sd.Generator(model(tmp_path, some), draft=None, n_ctx=64)
