"""Names of models on the hub, and which files they mean."""

from __future__ import annotations

import pytest

from specdec_native import ModelError, _core

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "name", ["hf:a/b", "hf:a/b:Q4_K_M", "hf:a-1/b.c_d:UD-Q4_K_XL", "hf:a/b/c.gguf", "hf:a/b/c/d.gguf", "a/b"]
)
def test_names(name: str) -> None:
    assert _core.hub_repository(name) == "/".join(name.removeprefix("hf:").split(":")[0].split("/")[:2])


WRONG = [
    "hf:",
    "hf:a",
    "hf:/b",
    "hf:a/",
    "hf:a/b:",
    "hf:a/b/c",
    "hf:a/../c.gguf",
    "hf:a/b/../c.gguf",
    "hf:a/b//c.gguf",
    "hf:a/..",
]


@pytest.mark.parametrize(
    "name", [*WRONG, "hf:a/..", "hf:a b/c", "hf:a/b?c", "hf:a/b:x/y", "hf:a/b\n", "hf:-a/b", "hf:a/b."]
)
def test_wrong_names(name: str) -> None:
    with pytest.raises(ValueError, match="it must be hf:OWNER/REPOSITORY"):
        _core.hub_repository(name)


PARTS = [f"big-Q8_0-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
FILES = ["README.md", "m-IQ4_XS.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "mmproj-Q4_K_M.gguf", "sub/m-f16.gguf"]

CHOICES = [
    ("hf:a/b", FILES, ["m-Q4_K_M.gguf"]),
    ("hf:a/b:q4_k_s", FILES, ["m-Q4_K_S.gguf"]),
    ("hf:a/b:F16", FILES, ["sub/m-f16.gguf"]),
    ("hf:a/b:Q4_XS", ["m-IQ4_XS.gguf", "m-Q4_XS.gguf"], ["m-Q4_XS.gguf"]),
    ("hf:a/b:BF16", ["BF16/m.gguf", "BF16-other/m.gguf"], ["BF16-other/m.gguf"]),
    ("hf:a/b/sub/m-f16.gguf", FILES, ["sub/m-f16.gguf"]),
    ("hf:a/b", [*PARTS, "a.gguf"], PARTS),
    ("hf:a/b:Q8_0", [*reversed(PARTS), "a.gguf"], PARTS),
    ("hf:a/b", ["z.gguf", "b.gguf", "imatrix.gguf"], ["b.gguf"]),
    (f"hf:a/b/{PARTS[0]}", PARTS, PARTS),
]


@pytest.mark.parametrize(("name", "paths", "chosen"), CHOICES)
def test_choices(name: str, paths: list[str], chosen: list[str]) -> None:
    assert _core.hub_model_files(name, paths) == chosen


def test_what_is_not_there() -> None:
    with pytest.raises(ModelError, match=r"a/b has no file with Q2_K in its name; it has m-IQ4_XS.gguf, m-Q4_K_M"):
        _core.hub_model_files("hf:a/b:Q2_K", FILES)
    with pytest.raises(ModelError, match=r"a/b has no file x.gguf; it has"):
        _core.hub_model_files("hf:a/b/x.gguf", FILES)
    with pytest.raises(ModelError, match="no GGUF files; look for a repository with -GGUF"):
        _core.hub_model_files("hf:a/b", ["mmproj-m.gguf", "model.safetensors"])
    with pytest.raises(ModelError, match="a/b has 2 of the 3 parts"):
        _core.hub_model_files("hf:a/b", PARTS[:2])
