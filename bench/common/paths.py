"""Where things are: the repository, its build, the bundled models, and the models that benchmarks make."""

from __future__ import annotations

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / "default"
BUNDLED = ROOT / "models"
MADE = ROOT / "build" / "bench-models"
TARGET, DRAFT = BUNDLED / "stdlib-target-f16.gguf", BUNDLED / "stdlib-draft-f16.gguf"
