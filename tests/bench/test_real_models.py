"""Which files bench/real_models.py takes out of a package."""

from __future__ import annotations

import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def test_pieces_of_both_kinds_are_found() -> None:
    spec = importlib.util.spec_from_file_location("real_models", ROOT / "bench" / "real_models.py")
    assert spec is not None and spec.loader is not None
    real_models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real_models)
    others = ["m/__init__.py", "m/partial.py", "m-1.0.dist-info/RECORD"]
    assert real_models.data_files([*others, "m/data/part002.bin", "m/data/part001.bin"]) == [
        "m/data/part001.bin",
        "m/data/part002.bin",
    ]
    assert real_models.data_files([*others, "m/data/m.gguf.part00"]) == ["m/data/m.gguf.part00"]
    assert real_models.data_files(others) == []
