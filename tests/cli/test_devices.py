"""Options of devices where there is none: no module, a file that is no module, unknown names."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

import specdec_native as sd


def ended(specdec: pathlib.Path, folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SPECDEC_DEVICE_MODULES": str(folder)}
    return subprocess.run(
        [specdec, "generate", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_no_module(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    listed = ended(specdec, tmp_path, "--list-devices")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout == "no device: no device module is installed (docs/devices.md)\n"


def test_a_file_that_is_no_module(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Nor does it keep the CPU from running everything."""
    (tmp_path / "specdec-vulkan.so").write_bytes(b"\x7fELF\x1b[31m")
    listed = ended(specdec, tmp_path, "--list-devices").stdout
    assert listed.startswith("no device: ") and "specdec-vulkan.so: the system cannot load it: " in listed
    made = ended(specdec, tmp_path, "-p", "import os", "-n", "2", "-t", "1", "-ngl", "all")
    assert made.returncode == 0 and made.stdout
    assert made.stderr.count("n_gpu_layers (-ngl) has no effect: no device: ") == 1 and "\x1b" not in made.stderr


@pytest.mark.parametrize(
    ("place", "module", "is_found"),
    [
        ("bin/specdec", "bin", True),
        ("bin/specdec", "lib/specdec", True),
        ("specdec", "lib/specdec", False),
        ("other/specdec", "lib/specdec", False),
    ],
)
def test_where_modules_are_looked_for(
    specdec: pathlib.Path, tmp_path: pathlib.Path, place: str, module: str, is_found: bool
) -> None:
    """Next to the program, and in lib/specdec of the prefix that it is installed in; not in a folder above it that may
    be anybody's."""
    program = tmp_path / place
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(specdec, program)
    (tmp_path / module).mkdir(parents=True, exist_ok=True)
    (tmp_path / module / "specdec-vulkan.so").write_bytes(b"no module")
    environment = {key: value for key, value in os.environ.items() if key != "SPECDEC_DEVICE_MODULES"}
    listed = subprocess.run(
        [program, "generate", "--list-devices"], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert (f"{module}/specdec-vulkan.so: the system cannot load it" in listed) == is_found, listed


def test_an_unknown_device(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    made = ended(specdec, tmp_path, "-p", "x", "-dev", "Vulkan0")
    assert made.returncode == 1 and made.stdout == ""
    assert "there is no device Vulkan0: no device module is installed" in made.stderr
    with pytest.raises(sd.Error, match="there is no device Vulkan0: no device module is installed"):
        sd.Generator(devices="Vulkan0")
    with pytest.raises(sd.Error, match="there is no device Vulkan1"):
        sd.Generator(n_gpu_layers_draft="all", devices_draft=["Vulkan1"])


def test_no_device_asked_for(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for flags in (["-dev", "none", "-ngl", "all"], ["-ngl", "0"], ["--no-exact"], ["-cmoe"], ["-ts", "1,2"]):
        made = ended(specdec, tmp_path, "-p", "import os", "-n", "1", "-t", "1", *flags)
        assert made.returncode == 0 and "note: " not in made.stderr, made.stderr


def test_layers_are_a_number_or_a_word(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    made = ended(specdec, tmp_path, "-ngl", "some")
    assert made.returncode == 2
    assert '-ngl: expected a whole number from -1 to 100000, all or auto, got "some"' in made.stderr
