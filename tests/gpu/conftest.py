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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The second of two processes begins with weights in F16, so that not both compile the shaders for F32, which takes
    Mesa's software device minutes."""
    if all(item.path.parent == pathlib.Path(__file__).parent for item in items):
        begin = [item for item in items if item.name == "test_the_bundled_pair"]
        others = [item for item in items if item not in begin]
        items[:] = others[: len(others) // 2] + begin + others[len(others) // 2 :]
