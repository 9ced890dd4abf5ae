"""A device to test on: the first one that is there, or the one that SPECDEC_TEST_DEVICE names. Mesa's software device
counts, if GGML_VK_VISIBLE_DEVICES=0 admits it. Without any, all of this folder is skipped."""

import os
import pathlib
import subprocess

import pytest


@pytest.fixture(scope="session")
def device(specdec: pathlib.Path) -> str:
    listed = subprocess.run(
        [specdec, "generate", "--list-devices"], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    names = [line.partition(":")[0] for line in listed.splitlines() if not line.startswith("no device")]
    wanted = os.environ.get("SPECDEC_TEST_DEVICE")
    if wanted is not None:
        assert wanted in names, listed
        return wanted
    if not names:
        pytest.skip(f"no device to test on: {listed.strip()} (make test-gpu)")
    return names[0]
