"""Models larger than the memory: what is read from the disk in every pass changes no text, and what fails is an
error."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
from bench.common.engines import Unavailable
from bench.memory.memory import evict, limited
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import SHAPES, Shape, make, with_head

import specdec_native as sd

PROMPTS = ["def bfs(graph, start):", "class Stack:\n    def push(", "import re\n"]


@pytest.fixture
def cache(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "tiles"


def outputs(generator: sd.Generator, **options: Any) -> list[list[tuple[int, float | None]]]:
    def run(prompt: str) -> list[tuple[int, float | None]]:
        return [(piece.token, piece.logprob) for piece in generator.stream(prompt, max_tokens=30, seed=7, **options)]

    return [run(prompt) for prompt in PROMPTS]


def memory_that_streams(target: str | pathlib.Path, spare: int = 2, **options: Any) -> str:
    """As much as the error asks for, and `spare` MiB."""
    with pytest.raises(sd.ModelError) as error:
        sd.Generator(str(target), memory="1M", n_threads=2, n_ctx=256, mmproj="none", **options)
    least = re.search(r"give at least (\d+) MiB", str(error.value))
    assert least
    return f"{int(least.group(1)) + spare}M"


@pytest.fixture
def memory(target_path: pathlib.Path, cache: pathlib.Path) -> str:
    """For the bundled target without a draft: about half of the weights stay."""
    return memory_that_streams(target_path, 4, draft="none", tile_cache=str(cache))


def streaming(target: str | pathlib.Path, memory: str | None = None, **options: Any) -> sd.Generator:
    memory = memory or memory_that_streams(target, 3, **options)
    with pytest.warns(RuntimeWarning, match="is larger than the memory"):
        return sd.Generator(str(target), memory=memory, n_threads=2, n_ctx=256, mmproj="none", **options)


@pytest.mark.parametrize(("k", "temperature"), [(0, 0), (0, 0.9), (1, 0), (4, 0.9), (16, 0), (40, 0.9), ("auto", 0)])
def test_texts_and_log_probabilities(
    k: int, temperature: float, target_path: pathlib.Path, draft_path: pathlib.Path, cache: pathlib.Path
) -> None:
    """A sampled text depends on the number of drafts."""
    with sd.Generator(str(target_path), n_threads=2, n_ctx=256, draft=str(draft_path)) as generator:
        expected = outputs(generator, temperature=temperature, num_draft_tokens=4 if k == "auto" else k)
    with streaming(target_path, draft=str(draft_path), tile_cache=str(cache)) as generator:
        assert outputs(generator, temperature=temperature, num_draft_tokens=k) == expected


@pytest.mark.parametrize("spare", [None, 2, 4, 6])
def test_the_target_in_few_bits_drafts_for_itself(
    spare: int | None, target_path: pathlib.Path, cache: pathlib.Path
) -> None:
    """The more memory, the more of its matrices need no copy."""
    with sd.Generator(str(target_path), n_threads=2, n_ctx=256, draft="none") as generator:
        expected = outputs(generator, temperature=0)
    options: dict[str, object] = dict(draft="self", num_draft_tokens=4, suffix=False)
    if spare is not None:
        options |= dict(tile_cache=str(cache), draft_weights="3-bit")
    with (
        sd.Generator(str(target_path), n_threads=2, n_ctx=256, **options)  # type: ignore[arg-type]
        if spare is None
        else streaming(target_path, memory_that_streams(target_path, spare, **options), **options)
    ) as generator:
        assert outputs(generator, temperature=0) == expected
        stats = generator.stats
        assert stats is not None and stats.accepted > stats.drafted / 2


def test_a_target_that_fits_without_its_copies(target_path: pathlib.Path, cache: pathlib.Path) -> None:
    options = dict(draft="self", draft_weights="3-bit", tile_cache=str(cache))
    memory = memory_that_streams(target_path, 9, **options)
    with (
        pytest.warns(RuntimeWarning, match="fits into the memory, but its rounded copies"),
        sd.Generator(str(target_path), memory=memory, n_ctx=256, **options) as generator,  # type: ignore[arg-type]
    ):
        assert generator.generate(PROMPTS[0], max_tokens=9).tokens


def test_several_requests_share_passes(
    target_path: pathlib.Path, draft_path: pathlib.Path, cache: pathlib.Path
) -> None:
    with sd.Generator(str(target_path), n_threads=2, n_ctx=256, draft="none") as generator:
        expected = [generator.generate(prompt, max_tokens=20, temperature=0).tokens for prompt in PROMPTS]
    with streaming(target_path, draft=str(draft_path), tile_cache=str(cache), max_sequences=3) as generator:
        handles = [generator.submit(prompt, max_tokens=20, temperature=0) for prompt in PROMPTS]
        assert [handle.result().tokens for handle in handles] == expected


def test_a_cancelled_pass_leaves_nothing_behind(target_path: pathlib.Path, cache: pathlib.Path) -> None:
    with streaming(target_path, draft="none", tile_cache=str(cache)) as generator:
        expected = outputs(generator, temperature=0)
        for delay in range(8):
            handle = generator.submit(PROMPTS[0] * 8, max_tokens=100, temperature=0)
            threading.Event().wait(0.004 * delay)
            handle.cancel()
        assert outputs(generator, temperature=0) == expected


def test_too_little_memory_names_what_is_needed(target_path: pathlib.Path, cache: pathlib.Path) -> None:
    with pytest.raises(sd.ModelError, match=r"give at least \d+ MiB"):
        sd.Generator(str(target_path), memory="5M", draft="none", n_ctx=256, tile_cache=str(cache))


def test_without_a_folder_passes_read_the_mapped_file(target_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with sd.Generator(str(target_path), n_threads=2, n_ctx=256, draft="none") as generator:
        expected = outputs(generator, temperature=0)
    with streaming(target_path, draft="none", tile_cache=str(tmp_path / "file" / "tiles")) as generator:
        assert outputs(generator, temperature=0) == expected


@pytest.mark.parametrize("size", ["much", "11 apples", "-3G"])
def test_sizes_that_are_none(size: str, target_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="a size such as 11G"):
        sd.Generator(str(target_path), memory=size, draft="none")


# ---- Tiles of stock types


@pytest.fixture
def stock(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model whose weights are repacked, of some MB."""
    shape = dataclasses.replace(SHAPES.get("llama", Shape()), width=512, ffn=2048, head=64)
    return make("llama", shape=shape).write(tmp_path / "m.gguf", GgmlType.Q8_0)


def test_a_target_with_its_own_head(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    """The head reads its layers and the output matrix between passes."""
    model = with_head("qwen35", shape=dataclasses.replace(SHAPES.get("qwen35", Shape()), ffn=8192))
    path = model.write(tmp_path / "head.gguf", GgmlType.F16)
    memory = memory_that_streams(path, tile_cache=str(cache))
    with sd.Generator(str(path), n_threads=2, n_ctx=256, draft="none") as generator:
        expected = outputs(generator, temperature=0)
    with streaming(path, memory, draft="mtp", num_draft_tokens=3, tile_cache=str(cache)) as generator:
        assert outputs(generator, temperature=0) == expected
        assert generator.stats is not None and generator.stats.drafted > 0


def test_a_damaged_file_during_passes_is_an_error_and_the_generator_stays_usable(
    stock: pathlib.Path, cache: pathlib.Path
) -> None:
    memory = memory_that_streams(stock, tile_cache=str(cache))
    with streaming(stock, memory, draft="none", tile_cache=str(cache)) as generator:
        expected = generator.generate("abc", max_tokens=20, temperature=0, ignore_eos=True).tokens
        (tiles,) = cache.iterdir()
        content = tiles.read_bytes()
        with open(tiles, "r+b") as file:
            file.truncate(3 << 20)
        with pytest.raises(sd.ModelError, match=r"could not be read during a pass.*became shorter"):
            generator.generate("abc", max_tokens=20, temperature=0, ignore_eos=True)
        with open(tiles, "r+b") as file:
            file.write(content)
        assert generator.generate("abc", max_tokens=20, temperature=0, ignore_eos=True).tokens == expected


def test_kept_tiles_are_checked_and_made_again(stock: pathlib.Path, cache: pathlib.Path) -> None:
    memory = memory_that_streams(stock, tile_cache=str(cache))
    runs = []
    for change in range(3):
        with streaming(stock, memory, draft="none", tile_cache=str(cache)) as generator:
            runs.append(generator.generate("abc", max_tokens=20, temperature=0, ignore_eos=True).tokens)
        (tiles,) = cache.iterdir()
        if change == 0:
            made = tiles.read_bytes()
            damaged = bytearray(made)
            damaged[len(made) // 2] ^= 1
            tiles.write_bytes(damaged)
        else:
            assert tiles.read_bytes() == made
    assert runs[0] == runs[1] == runs[2]


def test_without_room_for_tiles_passes_read_the_mapped_file(stock: pathlib.Path, cache: pathlib.Path) -> None:
    memory = memory_that_streams(stock, tile_cache=str(cache))
    with sd.Generator(str(stock), draft="none", n_ctx=128) as generator:
        expected = generator.generate("abc", max_tokens=20, temperature=0, ignore_eos=True).tokens
    with (
        pytest.warns(RuntimeWarning, match="has no room for repacked weights"),
        sd.Generator(str(stock), memory=memory, draft="none", n_ctx=256, tile_cache=f"{cache}:1") as generator,
    ):
        assert generator.generate("abc", max_tokens=20, temperature=0, ignore_eos=True).tokens == expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads are counted in /proc")
def test_a_start_reads_experts_once(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    """Their hashes need all of the kept file, and the speed of the disk is measured on as much of a small one."""
    shape = dataclasses.replace(SHAPES.get("qwen3moe", Shape()), width=256, ffn=2048)
    path = make("qwen3moe", shape=shape).write(tmp_path / "m.gguf", GgmlType.Q8_0)
    memory = memory_that_streams(path, tile_cache=str(cache))
    memory = f"{int(memory[:-1]) + path.stat().st_size // 2**21}M"  # half of the experts stay
    with streaming(path, memory, draft="none", tile_cache=str(cache)):
        (tiles,) = cache.iterdir()
    script = (
        "import re, sys, specdec_native as sd\n"
        "def count(): return int(re.search(r'rchar: (\\d+)', open('/proc/self/io').read()).group(1))\n"
        "before = count()\n"
        "sd.Generator(sys.argv[1], memory=sys.argv[2], n_threads=2, n_ctx=256, draft='none', tile_cache=sys.argv[3])\n"
        "print(count() - before)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script, str(path), memory, str(cache)]
    count = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert 1.5 < count / tiles.stat().st_size < 2.2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("draft", ["none", "self"])
def test_the_process_stays_within_the_memory(
    draft: str, specdec: pathlib.Path, target_path: pathlib.Path, cache: pathlib.Path
) -> None:
    """Private memory, at its peak; pages of mapped files are the system's."""
    watch = (
        "import re, subprocess, sys, time\n"
        "run = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "most = 0\n"
        "while run.poll() is None:\n"
        "    try: status = open(f'/proc/{run.pid}/status').read()\n"
        "    except OSError: break\n"
        "    most = max([most, *map(int, re.findall(r'RssAnon:\\s+(\\d+)', status))])\n"
        "    time.sleep(0.002)\n"
        "print(most, run.wait())\n"
    )
    command = [sys.executable, "-c", watch, str(specdec), "generate", "-m", str(target_path)]
    memory = memory_that_streams(target_path, 4, draft=draft, tile_cache=str(cache))
    command += ["--draft", draft, "-c", "256", "-t", "2"]
    command += ["-p", PROMPTS[0], "-n", "60", "--memory", memory, "--tile-cache", str(cache)]
    kibibytes, code = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert code == 0 and 0 < kibibytes <= int(memory[:-1]) * 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="control groups are Linux's")
@pytest.mark.parametrize("is_given", [True, False])
def test_under_a_control_group(
    is_given: bool, memory: str, specdec: pathlib.Path, target_path: pathlib.Path, cache: pathlib.Path
) -> None:
    """The system ends a process that exceeds the limit. Without --memory most of the limit is the budget."""
    megabytes, options = (int(memory[:-1]), ["--memory", memory]) if is_given else (int(memory[:-1]) + 7, [])
    command = [str(specdec), "generate", "-m", str(target_path), "-md", "none", "-c", "256", "-t", "2", "--temp", "0"]
    command += ["-p", PROMPTS[0], "-n", "60", "--no-stats", "--tile-cache", str(cache)]
    expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    evict(target_path)
    try:
        with limited(megabytes << 20) as enter:
            for _ in range(2):  # the first run makes the repacked weights
                run = subprocess.run([*command, *options], capture_output=True, text=True, preexec_fn=enter)
                assert run.returncode == 0, run.stderr
                assert "is larger than the memory: of" in run.stderr
                assert run.stdout == expected
    except Unavailable as error:
        pytest.skip(str(error))


def test_one_line_says_what_to_expect(
    specdec: pathlib.Path, target_path: pathlib.Path, cache: pathlib.Path, memory: str
) -> None:
    command: list[str | pathlib.Path] = [specdec, "generate", "-m", target_path, "-md", "none", "-p", "x", "-n", "3"]
    command += ["-c", "256", "--memory", memory, "--tile-cache", cache]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = [line for line in result.stderr.splitlines() if "larger than the memory" in line]
    assert re.search(
        r"of 0\.01 GB of weights, .* stay; every pass reads .* GB from the disk at .* GB/s, about .* s", line
    )
