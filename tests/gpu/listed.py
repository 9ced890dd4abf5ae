"""The devices that the program lists."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Mapping


def listed_devices(specdec: pathlib.Path, environment: Mapping[str, str] | None = None) -> tuple[list[str], str]:
    """Their names, and the whole text, which says why there are none."""
    command: list[str | pathlib.Path] = [specdec, "generate", "--list-devices"]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout
    return [line.partition(":")[0] for line in text.splitlines() if not line.startswith("no device")], text
