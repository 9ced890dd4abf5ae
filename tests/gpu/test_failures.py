"""A device that fails: the error names it and the remedy, what is made afterwards has the right bits or is an error,
and the process lives."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.gpu.layers import FailingVulkan
from tests.models.tiny_models import make

LOST, FULL, REFUSED = -4, -2, -3  # VkResult: DEVICE_LOST, OUT_OF_DEVICE_MEMORY, INITIALIZATION_FAILED


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make("llama", seed=1).write(tmp_path_factory.mktemp("failures") / "tiny.gguf")


@pytest.fixture
def failing(built: Callable[[str], pathlib.Path], device: str, tmp_path: pathlib.Path) -> FailingVulkan:
    if not device.startswith("Vulkan"):
        pytest.skip("the failing layer is one of Vulkan")
    return FailingVulkan(built("gpu/failing_vulkan.so"), tmp_path)


@pytest.fixture
def steps(failing: FailingVulkan, device: str, model: pathlib.Path) -> Callable[..., list[dict[str, Any]]]:
    """What child.py prints if a call fails."""

    def run(call: str, result: int, at: int) -> list[dict[str, Any]]:
        command = [sys.executable, str(pathlib.Path(__file__).with_name("child.py")), str(model), device]
        environment = os.environ | failing.environment(call, result, at)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert ran.returncode == 0, (call, at, ran.stdout, ran.stderr)
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return run


def places(count: int) -> list[int]:
    """Of calls 1 to count, some before the end of the process: every one is a process of its own."""
    return sorted({1, *(max(1, count * part // 10) for part in (1, 3, 5, 8))})


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitForFences", "vkCreateComputePipelines"])
def test_a_lost_device(call: str, steps: Callable[..., Any], failing: FailingVulkan, device: str) -> None:
    """What was made before is right, what comes after is an error, and the CPU still works."""
    *expected, on_cpu = steps(call, LOST, 0)
    assert all("tokens" in step for step in expected) and "on_cpu" in on_cpu
    for at in places(failing.count()):
        *found, last = steps(call, LOST, at)
        made = [step for step in found if "tokens" in step]
        errors = found[len(made) :]
        assert last == on_cpu and made == expected[: len(made)]
        assert errors and all(f"{device} was lost (" in step["error"] for step in errors), (at, errors)
        assert all(step["error"].endswith("ErrorDeviceLost); start the program again") for step in errors)


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkCreateBuffer", "vkMapMemory", "vkCreateComputePipelines"])
def test_full_memory(call: str, steps: Callable[..., Any], failing: FailingVulkan, device: str) -> None:
    """One request fails, or loading; the next ones have the bits that they always have."""
    expected = steps(call, FULL, 0)
    for at in places(failing.count()):
        found = steps(call, FULL, at)
        errors = [step for step in found if "error" in step]
        assert len(errors) <= 1
        for error in errors:
            assert device in error["error"] and "ask for fewer layers (n_gpu_layers, -ngl)" in error["error"]
            at_step = found.index(error)
            found[at_step : at_step + 1] = [] if "loading" in error else [expected[at_step]]
        assert found == expected, (call, at)


def test_a_driver_that_refuses(
    steps: Callable[..., Any], failing: FailingVulkan, specdec: pathlib.Path, model: pathlib.Path, device: str
) -> None:
    """A device that cannot be set up can be asked for again; without being asked for it is left."""
    error, *others = steps("vkCreateDevice", REFUSED, 1)
    assert error["loading"] and device in error["error"]
    assert others == steps("vkCreateDevice", REFUSED, 0)

    def text(*options: str, at: int) -> subprocess.CompletedProcess[str]:
        command = [str(specdec), "generate", "-m", str(model), "-p", "the of", "-n", "8", "--temp", "0", *options]
        environment = os.environ | failing.environment("vkCreateDevice", REFUSED, at)
        return subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=600)

    on_cpu = text("-ngl", "0", at=0)
    left = text(at=1)
    assert left.returncode == 0 and left.stdout == on_cpu.stdout
    assert text("-ngl", "all", at=1).returncode == 1
