"""Layers on two devices, and models on one each: the same guarantee, and every device has room for its part."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Callable

import pytest
from tests.gpu.listed import listed_devices
from tests.models.tiny_models import make

SYSTEM_DRIVERS = pathlib.Path("/usr/share/vulkan/icd.d")


@pytest.fixture(scope="module")
def environment(device: str, specdec: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """In which there are two devices: those of this machine, or Mesa's software device twice, since Vulkan's loader
    takes two descriptions of one driver for two drivers."""
    found = dict(os.environ)
    if listed_devices(specdec)[0][:2] == ["Vulkan0", "Vulkan1"]:
        return found
    drivers = sorted(SYSTEM_DRIVERS.glob("lvp_icd*.json"))
    if not drivers:
        pytest.skip("one device, and no software device of Mesa to make two of")
    folder = tmp_path_factory.mktemp("drivers")
    twice = [folder / "one.json", folder / "another.json"]
    for path in twice:
        path.write_bytes(drivers[0].read_bytes())
    found |= {"VK_DRIVER_FILES": ":".join(map(str, twice)), "GGML_VK_VISIBLE_DEVICES": "0,1"}
    found["VK_ICD_FILENAMES"] = found["VK_DRIVER_FILES"]  # its older name
    assert listed_devices(specdec, found)[0] == ["Vulkan0", "Vulkan1"]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("models")
    model = make("llama", seed=1)
    model.write(path / "target.gguf")
    model.near(0.02).write(path / "draft.gguf")
    return path


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(environment: dict[str, str], specdec: pathlib.Path, folder: pathlib.Path) -> Run:
    """specdec generate with these further options; the rest of what it prints is JSON."""

    def generate(*options: str) -> subprocess.CompletedProcess[str]:
        command = [str(specdec), "generate", "-m", "target.gguf", "-ngl", "all", "-p", "the the of", "-n", "24"]
        command += ["--temp", "0", "-t", "1", "--json", *options]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

    return generate


def made(ran: subprocess.CompletedProcess[str]) -> list[tuple[int, float]]:
    """Tokens and their log-probabilities."""
    assert ran.returncode == 0, ran.stderr
    pieces = [json.loads(line) for line in ran.stdout.splitlines()[:-1]]
    return [(piece["token"], piece["logprob"]) for piece in pieces]


def layers_on(ran: subprocess.CompletedProcess[str]) -> dict[str, list[int]]:
    """By model, the numbers of layers on Vulkan0 and Vulkan1."""
    found = {}
    for sentence in re.findall(r"\d of 3 layers of .*? free", ran.stderr):
        counts = {device: int(count) for count, device in re.findall(r"(\d)(?: of 3 .*?)? on Vulkan(\d)", sentence)}
        found[re.findall(r"layers of (\w+)", sentence)[0]] = [counts.get(device, 0) for device in "01"]
    return found


@pytest.mark.parametrize(("split", "layers"), [("1,1", [2, 1]), ("1,3", [1, 2]), ("0,1", [0, 3])])
def test_a_draft_changes_nothing(split: str, layers: list[int], run: Run) -> None:
    options = ["-c", "512", "-ts", split]
    plain = run(*options, "-k", "0")
    drafted = run(*options, "-md", "draft.gguf", "-ngld", "0", "-k", "5")
    assert made(drafted) == made(plain) and len(made(plain)) == 24
    assert layers_on(plain) == layers_on(drafted) == {"target": layers}


def test_by_default_layers_are_divided_by_free_memory(run: Run) -> None:
    found = run("-c", "512", "-k", "0")
    assert made(found) and sum(layers_on(found)["target"]) == 3


def test_a_draft_on_a_device_of_its_own(run: Run) -> None:
    options = ["-c", "512", "-dev", "Vulkan0"]
    alone = run(*options, "-k", "0")
    found = run(*options, "-md", "draft.gguf", "-devd", "Vulkan1", "-ngld", "all", "-k", "5")
    assert made(found) == made(alone)
    assert layers_on(found) == {"target": [3, 0], "draft": [0, 3]}


def test_every_device_must_have_room(run: Run) -> None:
    """The error names the one that lacks it."""
    found = run("-c", str(1 << 24), "-k", "0", "-ts", "0,1")  # caches of 4 GiB for each layer
    assert found.returncode == 1
    error = "not enough memory on Vulkan1 .* for 3 layers: .* Ask for at most 1 layers .* another division"
    assert re.search(error, found.stderr), found.stderr
