"""The chat templates that llama.cpp has for its own tests."""

from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "third_party" / "llama.cpp"))

import fetch  # noqa: E402


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    """models/templates of the pinned llama.cpp, which is not unpacked for the build."""
    folder = ROOT / ".cache" / f"templates-{fetch.SHA256[:12]}"
    try:
        return {path.stem: path.read_text(encoding="utf-8") for path in fetch.templates(folder)}
    except SystemExit as error:  # it needs the network the first time
        pytest.skip(str(error))
