"""`specdec models`: list, pull, rm and names, on a local hub and its cache."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import pytest
from tests.hub.clients import Client
from tests.hub.fake_hub import FakeHub

CODER = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
FILE = "qwen2.5-coder-0.5b-instruct-{}.gguf"


def models(binary: Client, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [binary.specdec, "models", *arguments]
    result = subprocess.run(command, env=binary.environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == code, result.stderr
    return result


@pytest.fixture
def coder(hub: FakeHub, tiny: bytes) -> None:
    hub.add(CODER, {FILE.format("q4_k_m"): tiny, FILE.format("q8_0"): tiny + bytes(100)})


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_nothing_yet(binary: Client) -> None:
    result = models(binary)
    assert result.stdout == "" and "no models in " in result.stderr and "models pull NAME" in result.stderr


def test_a_misspelt_short_name(binary: Client) -> None:
    result = models(binary, "pull", "qwen2.5-coder-0.5", code=2)
    assert "is neither OWNER/REPO nor a short name (specdec models names); did you mean qwen2.5-coder-0.5b?" in (
        result.stderr
    )


def test_pull_list_and_remove(binary: Client, hub: FakeHub, coder: None, tiny: bytes) -> None:
    path = pathlib.Path(models(binary, "pull", "qwen2.5-coder-0.5b").stdout.rstrip("\n"))
    assert path.read_bytes() == tiny and path.name == FILE.format("q4_k_m")
    models(binary, "pull", f"{CODER}:Q8_0")
    listed = models(binary, "list").stdout.splitlines()
    assert [row.split()[-1] for row in listed] == [f"{CODER}/{FILE.format(quant)}" for quant in ("q4_k_m", "q8_0")]
    assert all(re.fullmatch(r" *\d+(\.\d+)? KiB  \S+", row) for row in listed)
    entries = json.loads(models(binary, "list", "--json").stdout)
    assert [entry["bytes"] for entry in entries] == [len(tiny), len(tiny) + 100]
    assert entries[0]["path"] == str(path) and entries[0]["name"] == f"hf:{CODER}/{FILE.format('q4_k_m')}"

    several = models(binary, "rm", CODER, code=1).stderr
    assert "has several models in the cache; name one of them:" in several and FILE.format("q8_0") in several
    assert len(hub.downloads()) == 2 and path.exists()
    result = models(binary, "rm", "qwen2.5-coder-0.5b:Q4_K_M")
    assert result.stderr.startswith(f"removed {CODER}/{FILE.format('q4_k_m')}, ") and not path.exists()
    blobs = files(binary.cache / ("models--" + CODER.replace("/", "--")) / "blobs")
    assert [blob.stat().st_size for blob in blobs] == [len(tiny) + 100]
    models(binary, "rm", CODER)
    assert not (binary.cache / ("models--" + CODER.replace("/", "--"))).exists()
    assert "is not in the cache" in models(binary, "rm", CODER, code=1).stderr


def test_contents_of_another_commit_stay(binary: Client, hub: FakeHub, coder: None, tiny: bytes) -> None:
    """The same file in two commits is one blob."""
    first = pathlib.Path(models(binary, "pull", CODER).stdout.rstrip("\n"))
    hub.add(CODER, {FILE.format("q4_k_m"): tiny, "README.md": b"new"})
    second = pathlib.Path(models(binary, "pull", CODER).stdout.rstrip("\n"))
    assert first != second and first.resolve() == second.resolve()
    models(binary, "rm", CODER)
    assert not second.exists() and first.read_bytes() == tiny


def test_split_models_go_as_a_whole(binary: Client, hub: FakeHub, tiny: bytes) -> None:
    parts = {f"m-q4_k_m-0000{part}-of-00002.gguf": tiny + bytes(part) for part in (1, 2)}
    hub.add("some/split", parts)
    models(binary, "pull", "some/split")
    (entry,) = json.loads(models(binary, "list", "--json").stdout)
    assert entry["bytes"] == 2 * len(tiny) + 3
    models(binary, "rm", "some/split")
    assert files(binary.cache / "models--some--split") == []
    # Every name that the help shows, also of one among several.
    hub.add("some/split", {**parts, "m-q8_0.gguf": tiny})
    for name in ("some/split:Q4_K_M", "hf:some/split:q4_k_m", "some/split/m-q4_k_m-00001-of-00002.gguf"):
        models(binary, "pull", "some/split:Q4_K_M")
        models(binary, "pull", "some/split:Q8_0")
        assert models(binary, "rm", name).stderr.startswith("removed some/split/m-q4_k_m-00001-of-00002.gguf, ")
        (entry,) = json.loads(models(binary, "list", "--json").stdout)
        assert entry["name"] == "hf:some/split/m-q8_0.gguf"


def test_names(binary: Client, specdec: pathlib.Path) -> None:
    rows = [row.split() for row in models(binary, "names").stdout.splitlines()]
    assert ["qwen2.5-coder-0.5b", CODER] in rows
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) and model.count("/") == 1 for name, model in rows)


def test_a_short_name_is_a_model(binary: Client, hub: FakeHub, coder: None) -> None:
    for given in (["-hf", "qwen2.5-coder-0.5b"], ["qwen2.5-coder-0.5b:Q8_0"], [CODER]):
        command = [binary.specdec, "generate", *given, "-p", "in the", "-n", "2", "-c", "64"]
        result = subprocess.run(command, env=binary.environment, capture_output=True, text=True, timeout=100)
        assert result.returncode == 0, result.stderr
    assert len(hub.downloads()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pull"], "pull needs the NAME of a model"),
        (["lst"], '"lst" is none of list, pull, rm and names; did you mean list?'),
        (["list", "x"], "list takes no NAME"),
        (["rm", "x", "--json"], "--json is for list"),
        (["pull", "qwen"], '"qwen" is neither OWNER/REPO nor a short name'),
    ],
)
def test_wrong_use(specdec: pathlib.Path, arguments: list[str], message: str) -> None:
    result = subprocess.run([specdec, "models", *arguments], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
