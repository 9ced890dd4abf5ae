"""The sound models that tests/fuzz/edited_model.cpp changes, and the keys that it gives values to.

    PYTHONPATH=. python tests/fuzz/make_models.py FOLDER

One file for each architecture of tests/models/tiny_models.py and for each kind of tokenizer, and keys.txt: every key
that the gguf package knows, one a line, with {arch} for the architecture. And what fuzz_gguf begins with: seeds/gguf,
with a value of every type, and seeds/pictures.
"""

from __future__ import annotations

import pathlib
import sys
from dataclasses import replace

import gguf
import numpy as np
from gguf import GGMLQuantizationType as GgmlType
from gguf import TokenType
from tests.fuzz.picture_seeds import write_pictures
from tests.models.tiny_models import RECIPES, SHAPES, Shape, Vocabulary, make

# Tokenizers other than the byte-level BPE of tiny models, with every byte: SentencePiece, RWKV, unigram, WordPiece,
# PLaMo-2.
BYTES = {"llama": "<0x{:02X}>", "t5": "<0x{:02X}>", "bert": "<0x{:02X}>", "plamo2": "<0x{:02X}>", "rwkv": "\\x{:02x}"}
MARK_BYTES = ("llama", "t5", "plamo2")  # tokenizers whose byte tokens have a type of their own
WIDE = ("llama", "mixtral", "qwen35")  # with rows of 256, the blocks of K-quants
WORDS = ["\u2581", *"abcdefghijklmnopqrstuvwxyzH", "He", "llo", "\u2581w", "rld"]


class MarkedBytes(Vocabulary):
    def types(self) -> list[int]:
        kinds = super().types()
        kinds[2 : 2 + 256] = [int(TokenType.BYTE)] * 256
        return kinds


def vocabulary(model: str) -> Vocabulary:
    texts = [*map(BYTES[model].format, range(256)), *WORDS]
    kind = MarkedBytes if model in MARK_BYTES else Vocabulary
    return kind(model=model, size=2 + len(texts), merges=(), renamed=dict(enumerate(texts, start=2)))


def small(name: str) -> Shape:
    """Where an architecture asks for it, the heads fill the width; RWKV's are of 64."""
    return replace(
        SHAPES.get(name, Shape()), width=64 if name == "rwkv7" else 32, heads=2, kv_heads=1, ffn=32, context=256
    )


def known_keys() -> list[str]:
    groups = [group for group in vars(gguf.Keys).values() if isinstance(group, type)]
    keys = {key for group in groups for key in vars(group).values() if isinstance(key, str) and "." in key}
    return sorted(key for key in keys if key.startswith(("{arch}.", "tokenizer.", "split.", "general.a", "xielu")))


def write_every_type(path: pathlib.Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    fixed = [kind for kind in gguf.GGUFValueType if kind not in (gguf.GGUFValueType.STRING, gguf.GGUFValueType.ARRAY)]
    for kind in fixed:
        writer.add_key_value(f"a.{kind.name}", 1, kind)
        writer.add_key_value(f"b.{kind.name}", [1, 0], gguf.GGUFValueType.ARRAY, kind)
    writer.add_custom_alignment(64)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("a.weight", np.ones((2, 4), np.float32))
    writer.add_tensor("b.weight", np.ones((1, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder: pathlib.Path) -> None:
    (folder / "seeds" / "gguf").mkdir(parents=True, exist_ok=True)
    write_every_type(folder / "seeds" / "gguf" / "every_type.gguf")
    write_pictures(folder / "seeds" / "pictures")
    for name in RECIPES:
        make(name, shape=small(name)).write(folder / f"{name}.gguf")
    for name in WIDE:
        make(name, shape=replace(small(name), width=256, head=128, ffn=256)).write(folder / f"wide-{name}.gguf")
    for name in BYTES:
        make("llama", shape=small("llama"), vocabulary=vocabulary(name)).write(folder / f"vocabulary-{name}.gguf")
    for weights in (GgmlType.Q8_0, GgmlType.Q4_0):
        make("llama", shape=small("llama")).write(folder / f"weights-{weights.name}.gguf", weights)
    (folder / "keys.txt").write_text("\n".join(known_keys()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
