"""A sample of tests/cli/chat_files.py."""

from __future__ import annotations

import pathlib

from tests.cli import chat_files


def test_files_for_load(specdec: pathlib.Path) -> None:
    assert chat_files.check_all(specdec, range(1, 301)) == []
    # The last one shown has a system message of thousands of characters.
    assert chat_files.check_all(specdec, range(613801, 614001)) == []
