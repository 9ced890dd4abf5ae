"""Weights read into memory instead of mapped: the same bits, in huge pages where available, and an error if memory
is short."""

from __future__ import annotations

import pathlib
import re

import pytest
from gguf import GGMLQuantizationType as GgmlType
from gguf_bytes import Gguf, tensor
from tests.models.mxfp6_files import quantize
from tests.models.tiny_models import make, random_tokens

import specdec_native as sd
from specdec_native import _core

SMAPS = pathlib.Path("/proc/self/smaps")
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.parametrize("name", ["llama", "llama_tied", "mixtral"])
@pytest.mark.parametrize("type", ["F16", "Q8_0", "MXFP6"])
def test_logits_are_the_same_bits(name: str, type: str, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model = make(name)
    path = model.write(tmp_path / "m.gguf", GgmlType.F16 if type == "MXFP6" else GgmlType[type])
    if type == "MXFP6":
        path = quantize(specdec, path)
    tokens = random_tokens(model, 40)
    mapped, read = (_core.evaluate(str(path), tokens, [8, 1], 2, mmap=mmap) for mmap in (True, False))
    assert (mapped == read).all()


def test_the_bundled_pair_writes_the_same_text() -> None:
    texts = [
        sd.Generator(mmap=mmap, num_draft_tokens=3).generate("def", max_tokens=40, seed=1).text
        for mmap in (True, False)
    ]
    assert texts[0] == texts[1] != ""


def advised_bytes() -> int:
    """The memory of this process that is marked for huge pages."""
    areas = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", SMAPS.read_text())
    asked = [area for area in areas if re.search(r"^VmFlags:.* hg\b", area, re.MULTILINE)]
    return sum(int(re.findall(r"^Rss:\s+(\d+) kB", area, re.MULTILINE)[0]) << 10 for area in asked)


@pytest.mark.skipif(not SMAPS.exists() or not HUGE_PAGES.exists(), reason="no huge pages on this system")
def test_weights_are_where_they_were_asked_for(target_path: pathlib.Path) -> None:
    def load(mmap: bool) -> tuple[bool, int]:
        before = advised_bytes()
        gen = sd.Generator(target_path, mmap=mmap, n_ctx=64, n_batch=64)
        assert gen.n_ctx == 64
        return str(target_path) in SMAPS.read_text(), advised_bytes() - before

    in_file, advised_when_mapped = load(True)
    assert in_file
    in_file, advised = load(False)
    assert not in_file
    assert advised - advised_when_mapped > 0.9 * target_path.stat().st_size


@pytest.mark.skipif(not SMAPS.exists(), reason="this system does not tell how much memory there is")
def test_weights_beyond_memory_are_not_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "huge.gguf"
    size = 4 << 40
    path.write_bytes(Gguf(tensors=[tensor("a.weight", [size >> 12, 1 << 10])]).build())
    with path.open("r+b") as file:  # sparse: takes no disk space
        file.truncate(size + 4096)
    message = (
        r"huge\.gguf: not enough memory to read the weights into: 41943\d\d MiB needed, \d+ MiB available\. .*mmap=True"
    )
    with pytest.raises(sd.ModelError, match=message):
        sd.Generator(path, mmap=False)
    with pytest.raises(sd.ModelError, match="cannot load this model"):  # there is no such architecture
        sd.Generator(path)
