"""Random models of real sizes, made from the tests' tiny ones."""

from __future__ import annotations

import pathlib
from dataclasses import replace

from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import Shape, deepened, make


def model_file(path: pathlib.Path, name: str, shape: Shape, type: GgmlType = GgmlType.Q8_0) -> pathlib.Path:
    """Makes the model unless the file is there. Its layers but the first are alike."""
    if not path.exists():
        model = deepened(make(name, shape=replace(shape, layers=2)), shape.layers)
        model.write(path.with_suffix(".part"), type).rename(path)
    return path
