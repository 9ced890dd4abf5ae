"""Tests import files collected by pytest with importlib, which does not look beside them; gguf_bytes.py is there."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
