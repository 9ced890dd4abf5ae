"""Tell an unpacked ggml the names and sizes of our weight types: python register_types.py LLAMA_CPP_FOLDER.

ggml must know a type's id, name and block size before a GGUF file with it can be loaded. Nothing else of llama.cpp is
changed: the kernels are plugged in from outside (cpp/llama/ggml_mxfp6.cpp). Ids are far from upstream's, so that they
do not collide; upstream's own tables have holes too. Each edit is anchored and fails loudly when its anchor is missing.
"""

import hashlib
import pathlib
import sys

TYPES = (("MXFP6_E2M3", "mxfp6_e2m3", 96), ("MXFP6_E3M2", "mxfp6_e3m2", 97))
BLOCK, BLOCK_BYTES = 32, 25  # 32 weights: 24 bytes of 6-bit codes and a scale byte

ENUM_ANCHOR = "GGML_TYPE_COUNT   = 43,"
TRAITS_ANCHOR = "    [GGML_TYPE_Q2_K] = {\n        .type_name "


def edits() -> dict[str, tuple[str, str]]:
    enum = "".join(f"GGML_TYPE_{upper:<7} = {number},\n        " for upper, _, number in TYPES)
    rows = "".join(
        f'    [GGML_TYPE_{upper}] = {{\n        .type_name = "{name}",\n        .blck_size = {BLOCK},\n'
        f"        .type_size = {BLOCK_BYTES},\n        .is_quantized = true,\n    }},\n"
        for upper, name, _ in TYPES
    )
    return {
        "ggml/include/ggml.h": (ENUM_ANCHOR, f"{enum}GGML_TYPE_COUNT   = {TYPES[-1][2] + 1},"),
        "ggml/src/ggml.c": (TRAITS_ANCHOR, rows + TRAITS_ANCHOR),
    }


def fingerprint() -> str:
    """Short hash of the edits: part of the cache key, so that changing them unpacks afresh."""
    return hashlib.sha256(repr(edits()).encode()).hexdigest()[:8]


def register(root: pathlib.Path) -> None:
    """Insert the types into the llama.cpp folder `root`; a folder that has them already is left as it is."""
    for name, (anchor, text) in edits().items():
        path = root / name
        source = path.read_text(encoding="utf-8")
        if text in source:
            continue
        if source.count(anchor) != 1:
            sys.exit(f"{path}: anchor found {source.count(anchor)} times, expected once: {anchor!r}")
        path.write_text(source.replace(anchor, text), encoding="utf-8")


if __name__ == "__main__":
    register(pathlib.Path(sys.argv[1]))
