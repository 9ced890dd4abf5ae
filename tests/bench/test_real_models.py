"""bench/common/real_models.py: which files it takes out of a package."""

from __future__ import annotations

import pytest
from bench.common.real_models import data_files

pytestmark = pytest.mark.quick


def test_pieces_of_both_kinds_are_found() -> None:
    others = ["m/__init__.py", "m/partial.py", "m-1.0.dist-info/RECORD"]
    assert data_files([*others, "m/data/part002.bin", "m/data/part001.bin"]) == [
        "m/data/part001.bin",
        "m/data/part002.bin",
    ]
    assert data_files([*others, "m/data/m.gguf.part00"]) == ["m/data/m.gguf.part00"]
    assert data_files(others) == []
