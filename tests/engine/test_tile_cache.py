"""Repacked weights that are kept: a later run maps them, with the same text, or repacks where a file is not as it
should be."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import SHAPES, Shape, make

import specdec_native as sd

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux repacks and maps tiles")

TILES_AT = 1 << 21
PIECE = 2 << 21
LONG_AGO = time.time() - 7 * 86400


def content_hash(data: bytes) -> bytes:
    """ContentHash of cpp/disk_cache/checked_file.h."""
    prime, mask = 0x100000001B3, (1 << 64) - 1
    lanes = [1, 2, 3, 4]
    padded = data + bytes(32 - len(data) % 32)
    for at in range(0, len(padded), 8):
        lane = at // 8 % 4
        lanes[lane] = (lanes[lane] ^ int.from_bytes(padded[at : at + 8], "little")) * prime & mask
        lanes[lane] ^= lanes[lane] >> 32
    result = len(data)
    for value in lanes:
        result = (result ^ value) * prime & mask
    return b"%016x" % (result ^ result >> 32)


@dataclasses.dataclass
class Entry:
    """A file of tiles, as its header has it."""

    key: bytes
    tiles: bytes

    @staticmethod
    def read(path: pathlib.Path) -> Entry:
        data = path.read_bytes()
        assert data[:8] == b"SDTILES1"
        length = int.from_bytes(data[8:16], "little")
        return Entry(data[16 : 16 + length], data[TILES_AT:])

    def content(self) -> bytes:
        numbers = [len(field).to_bytes(8, "little") for field in (self.key, self.tiles)]
        header = b"SDTILES1" + numbers[0] + self.key + numbers[1]
        for at in range(0, len(self.tiles), PIECE):
            header += content_hash(self.tiles[at : at + PIECE])
        return (header + content_hash(header)).ljust(TILES_AT, b"\0") + self.tiles


class Runs:
    """Runs of the program with a folder of tiles."""

    def __init__(self, specdec: pathlib.Path, folder: pathlib.Path) -> None:
        self.specdec, self.folder = specdec, folder

    def start(self, model: pathlib.Path, *options: object, cache: object = None) -> subprocess.Popen[str]:
        if cache != "":
            options = (*options, "--tile-cache", cache or self.folder)
        command = [self.specdec, "generate", "-m", model, "-md", "none", "-p", "abcdef", "-n", "20", "--temp", "0"]
        command += ["-c", "128"]
        words = [str(word) for word in (*command, "-t", "2", "--ignore-eos", "--json", *options)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process: subprocess.Popen[str]) -> tuple[list[Any], str]:
        """Tokens and their log-probabilities, and the notes."""
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        pieces = [json.loads(line) for line in out.splitlines()][:-1]
        assert len(pieces) == 20
        return [(piece["token"], piece["logprob"]) for piece in pieces], err

    def run(self, model: pathlib.Path, *options: object, cache: object = None) -> tuple[list[Any], str]:
        return self.end(self.start(model, *options, cache=cache))

    def entries(self) -> list[pathlib.Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []

    def was_used(self, model: pathlib.Path, expected: list[Any]) -> bool:
        """Whether a run with this output maps the only entry."""
        (entry,) = self.entries()
        os.utime(entry, (LONG_AGO, LONG_AGO))
        before = entry.stat().st_ino
        tokens, err = self.run(model)
        assert tokens == expected and "note" not in err
        (after,) = self.entries()
        return after.stat().st_ino == before and after.stat().st_mtime > LONG_AGO + 1000


def write_model(path: pathlib.Path, seed: int = 0) -> pathlib.Path:
    shape = dataclasses.replace(SHAPES.get("llama", Shape()), width=256, ffn=256, head=64)
    model = make("llama", shape=shape)
    return (model.near(0.5 * seed) if seed else model).write(path, GgmlType.Q4_K)


@pytest.fixture
def runs(specdec: pathlib.Path, tmp_path: pathlib.Path) -> Runs:
    return Runs(specdec, tmp_path / "tiles")


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    return write_model(tmp_path / "m.gguf")


@pytest.fixture
def expected(runs: Runs, model: pathlib.Path) -> Iterator[list[Any]]:
    """The output without kept tiles; with them it is the same at the end of the test, too."""
    tokens, _ = runs.run(model, cache="")
    assert runs.entries() == [] and tokens == runs.run(model, "--no-repack", cache="")[0]
    yield tokens


def test_a_later_run_maps_them(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    assert runs.run(model) == (expected, runs.run(model, cache="")[1])
    assert runs.was_used(model, expected)
    assert Entry.read(runs.entries()[0]).content() == runs.entries()[0].read_bytes()  # this test knows the format


def test_the_file_of_the_model_is_hardly_read(runs: Runs, tmp_path: pathlib.Path) -> None:
    """Memory at its highest: once the tiles, not these and the file that they were made of."""
    shape = dataclasses.replace(Shape(), width=256, ffn=192 * 256, head=64)
    model = make("llama", shape=shape).write(tmp_path / "large.gguf", GgmlType.Q4_K)

    script = f"""if True:
        import specdec_native as sd
        options = dict(num_draft_tokens=0, n_threads=1, n_ctx=128, tile_cache={str(runs.folder)!r})
        with sd.Generator({str(model)!r}, **options) as generator:
            print(generator.generate("abc", max_tokens=20, temperature=0).tokens)
            print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """

    def run() -> tuple[str, int]:
        """Its tokens, and its memory in KiB."""
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
        tokens, memory = result.stdout.splitlines()[:2]
        return tokens, int(memory.split()[1])

    (tokens, repacked), (same, kept) = run(), run()
    assert tokens == same and kept < repacked - 0.5 * model.stat().st_size / 1024


def test_the_products_read_the_file(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    """Negative control: other tiles with right hashes, in places that are not compared, give another text."""
    runs.run(model)
    (path,) = runs.entries()
    entry = Entry.read(path)
    tiles = bytearray(entry.tiles)
    tiles[: len(tiles) // 64] = bytes(len(tiles) // 64)
    path.write_bytes(Entry(entry.key, bytes(tiles)).content())
    assert runs.run(model)[0] != expected


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "another program's": lambda data: b"{}" * 5_000_000,
    "header cut": lambda data: data[:100],
    "tiles cut": lambda data: data[:-1],
    "tiles cut at a page": lambda data: data[:-4096],
    "no tiles": lambda data: data[:TILES_AT],
    "longer": lambda data: data + b"\0",
    "other version": lambda data: data.replace(b"SDTILES1", b"SDTILES0"),
    "other layout": lambda data: data.replace(b"layout 1", b"layout 0"),
    "hash": lambda data: flipped(data, 8 + 8 + int.from_bytes(data[8:16], "little") + 8 + 3),
    "first tile": lambda data: flipped(data, TILES_AT),
    "last tile": lambda data: flipped(data, len(data) - 1),
    "middle": lambda data: flipped(data, (TILES_AT + len(data)) // 2),
    "zeros": lambda data: data[: TILES_AT + 4096] + bytes(len(data) - TILES_AT - 4096),
}


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(damage: str, runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    runs.run(model)
    (path,) = runs.entries()
    good = path.read_bytes()
    path.write_bytes(DAMAGE[damage](good))
    tokens, err = runs.run(model)
    assert tokens == expected and f"kept weights are repacked again: {path}: " in err
    assert runs.entries() == [path] and path.read_bytes() == good
    assert runs.was_used(model, expected)


def test_a_changed_model_has_another_entry(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    """Of the same name, size and time, in the same place or in a new one."""
    runs.run(model)
    before = model.stat()
    content = write_model(model.with_name("other.gguf"), seed=1).read_bytes()
    model.write_bytes(content)
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (model.stat().st_size, model.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    changed, _ = runs.run(model, cache="")
    assert changed != expected and runs.run(model)[0] == changed and len(runs.entries()) == 2
    os.rename(model.with_name("other.gguf"), model)
    assert runs.run(model)[0] == changed and len(runs.entries()) == 3
    assert runs.run(model)[0] == changed and len(runs.entries()) == 3


def test_an_entry_of_another_model(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    """Under the name of this model's, with the other's key or even with its own."""
    runs.run(model)
    (path,) = runs.entries()
    own = Entry.read(path)
    other = write_model(model.with_name("other.gguf"), seed=1)
    assert runs.run(other)[0] != expected
    (others,) = set(runs.entries()) - {path}
    for forged, reason in (
        (others.read_bytes(), "is for another model or version"),
        (Entry(own.key, Entry.read(others).tiles).content(), "has tiles for another model"),
    ):
        path.write_bytes(forged)
        tokens, err = runs.run(model)
        assert tokens == expected and f"{path}: {reason}" in err


def test_the_least_recently_used_goes_first(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    """A folder with room for one model's tiles or two."""
    models = [model, write_model(model.with_name("b.gguf"), 1), write_model(model.with_name("c.gguf"), 2)]
    names: list[pathlib.Path] = []
    for path in models:
        runs.run(path, cache=f"{runs.folder}:6")
        names += set(runs.entries()) - set(names)
        os.utime(names[-1], (LONG_AGO + len(names), LONG_AGO + len(names)))
    size = names[-1].stat().st_size
    assert len(names) == 3 and 3 * size > 6 << 20 > 2 * size
    assert runs.entries() == sorted(names[1:])
    runs.run(models[1], cache=f"{runs.folder}:6")
    assert runs.run(model, cache=f"{runs.folder}:6")[0] == expected
    assert runs.entries() == sorted(names[:2])


def test_a_folder_without_room(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    tokens, err = runs.run(model, cache=f"{runs.folder}:1")
    assert tokens == expected and f"{runs.folder}: has no room for repacked weights" in err
    assert runs.entries() == []


@pytest.mark.parametrize("folder", ["/dev/null", "/dev/null/tiles", "/proc/tiles"])
def test_a_folder_that_cannot_be_made(folder: str, runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    tokens, err = runs.run(model, cache=folder)
    assert tokens == expected and f"repacked weights are not kept: {folder}: cannot be created as a folder" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_to_read_only(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    runs.folder.mkdir(mode=0o500)
    tokens, err = runs.run(model)
    assert tokens == expected and "repacked weights are not kept" in err and runs.entries() == []


def test_several_processes_at_once(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    processes = [runs.start(model) for _ in range(4)]
    assert all(runs.end(process)[0] == expected for process in processes)
    assert runs.was_used(model, expected)


def test_a_process_that_died_while_it_wrote(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    """Its file is removed, unless another process still writes it and holds its lock."""
    runs.run(model)
    (path,) = runs.entries()
    part = path.with_name(path.name + ".part")
    path.rename(part)
    with part.open() as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        assert runs.run(model) == (expected, runs.run(model, cache="")[1]) and runs.entries() == [part]
    assert runs.run(model)[0] == expected and runs.entries() == [path]


def test_a_draft_has_an_entry_for_each_rounding(runs: Runs, model: pathlib.Path, expected: list[Any]) -> None:
    draft = write_model(model.with_name("draft.gguf"), seed=1)
    pair = ["-md", draft, "-k", "3"]
    for count, weights in ((2, "file"), (2, "file"), (2, "4-bit")):  # Q4_K is not rounded to 4 bits
        tokens, _ = runs.run(model, *pair, "--draft-weights", weights)
        assert tokens == expected and len(runs.entries()) == count


def test_in_python(runs: Runs, model: pathlib.Path) -> None:
    texts = []
    for cache in (None, runs.folder, f"{runs.folder}:100"):
        with sd.Generator(model, num_draft_tokens=0, n_threads=1, n_ctx=128, tile_cache=cache) as generator:
            texts.append(generator.generate("abc", max_tokens=20, temperature=0).tokens)
    assert texts[0] == texts[1] == texts[2] and len(runs.entries()) == 1
