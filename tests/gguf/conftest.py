"""Puts this folder on the import path, for gguf_bytes.py: pytest's importlib mode does not."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
