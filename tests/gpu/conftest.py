"""A device to test on: the first one that is there, or the one that SPECDEC_TEST_DEVICE names. Mesa's software device
counts, if GGML_VK_VISIBLE_DEVICES=0 admits it. Without any, all of this folder is skipped."""

import os
import pathlib

import pytest
from tests.gpu.layers import layer_environment
from tests.gpu.listed import listed_devices


@pytest.fixture(scope="session")
def device(specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    names, listed = listed_devices(specdec)
    patient = specdec.parent / "tests" / "gpu" / "patient_vulkan.so"
    if "llvmpipe" in listed and patient.exists():
        os.environ.update(layer_environment(patient, tmp_path_factory.mktemp("layer")))
    wanted = os.environ.get("SPECDEC_TEST_DEVICE")
    if wanted is not None:
        assert wanted in names, listed
        return wanted
    if not names:
        pytest.skip(f"no device to test on: {listed.strip()} (make test-gpu)")
    return names[0]
