"""models/widen.py: widened models have the small model's logits in the real engine, and errors leave no files."""

from __future__ import annotations

import importlib.util
import math
import pathlib
import shutil
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.mxfp6_files import quantize
from tests.models.numpy_llama import exact, logits
from tests.models.tiny_models import Block, Shape, block_drafter, damped, eagle3_head, make, random_tokens, with_mask

import specdec_native as sd
from specdec_native import _core

ROOT = pathlib.Path(__file__).parents[2]
F32Array = npt.NDArray[np.float32]
DRAFT = ROOT / "models" / "stdlib-draft-f16.gguf"
TOKENS = [0, *map(int, np.random.default_rng(1).integers(1, 4096, 39))]


@pytest.fixture(scope="module")
def widen() -> ModuleType:
    spec = importlib.util.spec_from_file_location("widen", ROOT / "models" / "widen.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["widen"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def engine(path: pathlib.Path, tokens: list[int] = TOKENS) -> F32Array:
    return _core.evaluate(str(path), tokens, [len(tokens)])


def difference(a: F32Array, b: F32Array) -> float:
    """Largest, in standard deviations of a."""
    return float(np.abs(a - b).max() / a.std())


ROUNDING = 0.005  # F16 rounding of activations and cache changes logits by about this much


@pytest.mark.parametrize(
    "options",
    [
        "--width 256",
        "--width 384 --heads 6 --kv-heads 2",  # three query heads to a place of two
        "--width 512 --layers 9 --heads 8 --kv-heads 2 --ffn 1024",
        "--width 512 --layers 10 --heads 16 --kv-heads 16 --ffn 800",  # kv heads are copied; heads wider than width
        "--width 320 --heads 12 --kv-heads 12 --vocabulary 4200",
    ],
)
@pytest.mark.parametrize("model", ["target", "draft"])
def test_logits_are_the_small_models(widen: ModuleType, tmp_path: pathlib.Path, options: str, model: str) -> None:
    out = tmp_path / "wide.gguf"
    assert widen.main(["same", str(out), "--model", model, "--layers", "9", "--ffn", "800", *options.split()]) == 0
    small = engine(ROOT / "models" / f"stdlib-{model}-f16.gguf")
    wide = engine(out)
    assert difference(small, wide[:, :4096]) < ROUNDING
    assert (wide[:, 4096:] < small.min() - 1000).all()


@pytest.mark.parametrize("kind", ["head", "block drafter"])
def test_drafters_draft_as_the_small_ones(widen: ModuleType, tmp_path: pathlib.Path, kind: str) -> None:
    target = damped(make("llama")) if kind == "head" else with_mask(make("llama"))
    drafter = eagle3_head(target) if kind == "head" else block_drafter(target, Block(biased=True))
    options: sd.StreamOptions = {"max_tokens": 60, "temperature": 0, "logit_bias": {1: -math.inf}}

    def drafting(target: pathlib.Path, head: pathlib.Path) -> tuple[list[int], int, int]:
        completion = sd.Generator(target, head, n_threads=1, n_ctx=512, num_draft_tokens=4, suffix=False).generate(
            "def the", **options
        )
        return completion.tokens, completion.stats.drafted, completion.stats.accepted

    small = target.write(tmp_path / "target.gguf"), drafter.write(tmp_path / "drafter.gguf")
    for options_of_shape in ("--width 96 --ffn 128", "--width 128 --heads 8 --kv-heads 4 --ffn 160"):
        wide = tmp_path / "wide-target.gguf", tmp_path / "wide-drafter.gguf"
        for path, out in zip(small, wide, strict=True):
            assert widen.main(["same", str(out), "--model", str(path), "--force", *options_of_shape.split()]) == 0
        assert drafting(*wide) == drafting(*small)
    assert drafting(*small)[2] > 0


def test_weights_look_like_weights(widen: ModuleType) -> None:
    """No matrix is mostly zeros, and the random ones are as large as the trained ones."""
    small = widen.read(DRAFT)
    shape = widen.Shape(2, 256, 512, 4, 2, 4096)
    for matrix in (t for t in widen.tensors(small, shape) if isinstance(t, widen.Matrix)):
        values = np.concatenate(list(widen.blocks(matrix, widen.Filler(0))))
        zero = float((values == 0).mean())
        assert zero < 0.55, matrix.name  # half of the residual's width in whatever may write it
        patched = values.astype(np.float32).std()
        assert 0.3 * matrix.deviation < patched < 2 * matrix.deviation, matrix.name


def test_any_llama_can_be_widened(widen: ModuleType, tmp_path: pathlib.Path) -> None:
    """Untied, F32, three query heads to a kv head, against numpy."""
    model = make("llama", 3, shape=Shape(width=64, heads=6, kv_heads=2, head=16))
    small = model.write(tmp_path / "small.gguf", GgmlType.F32)
    tokens = random_tokens(model, 24)
    for options in (
        "--width 128 --heads 8 --kv-heads 4",
        "--width 96 --heads 8 --kv-heads 8",
        "--width 96 --heads 9 --kv-heads 3",
    ):
        out = tmp_path / "wide.gguf"
        assert widen.main(["same", str(out), "--model", str(small), "--force", *options.split()]) == 0
        wide = engine(out, tokens)
        assert difference(logits(model, tokens, exact).astype(np.float32), wide) < 3 * ROUNDING  # F32 weights, too


def test_the_padded_pair_is_valid_after_quantization(
    widen: ModuleType, tmp_path: pathlib.Path, specdec: pathlib.Path
) -> None:
    import specdec_native as sd

    out = tmp_path / "wide.gguf"
    assert widen.main(["same", str(out), "--width", "512", "--heads", "8", "--vocabulary", "4608"]) == 0
    wide = quantize(specdec, out)
    assert (engine(wide)[:, 4096:] < -1000).all()
    text = sd.Generator(wide, DRAFT, n_threads=1, num_draft_tokens=5).generate("class Stack:", max_tokens=60, seed=1)
    assert text.stats.accepted > 10 and max(text.tokens) < 4096


def test_perturbation_is_decided_by_strength_and_seed(widen: ModuleType, tmp_path: pathlib.Path) -> None:
    def made(name: str, *options: str) -> pathlib.Path:
        assert widen.main(["same", str(tmp_path / name), "--model", "draft", *options]) == 0
        return tmp_path / name

    plain = engine(DRAFT)
    assert (engine(made("0", "--perturb", "0")) == plain).all()
    noisy = made("a", "--perturb", "0.05", "--seed", "3")
    assert noisy.read_bytes() == made("b", "--perturb", "0.05", "--seed", "3").read_bytes()
    wide = made("w", "--perturb", "0.05", "--seed", "3", "--width", "256")
    assert difference(engine(noisy), engine(wide)) < ROUNDING  # the noise does not depend on the shape
    small = [difference(plain, engine(made(s, "--perturb", s))) for s in ("0.01", "0.05", "0.2")]
    assert 0.02 < small[0] < small[1] < small[2]
    assert difference(engine(noisy), engine(made("c", "--perturb", "0.05", "--seed", "4"))) > 0.1
    strength = widen.strength_for(0.8)
    assert made("d", "--acceptance", "0.8").read_bytes() == made("e", "--perturb", str(strength)).read_bytes()


def test_acceptance_is_what_the_table_says(widen: ModuleType, tmp_path: pathlib.Path) -> None:
    """Approximately: with few tokens."""
    import specdec_native as sd

    rates = []
    for rate in ("0.9", "0.6"):
        assert widen.main(["same", str(tmp_path / rate), "--acceptance", rate]) == 0
        gen = sd.Generator(tmp_path / rate, DRAFT, n_threads=1, num_draft_tokens=5)
        runs = [
            gen.generate(prompt, max_tokens=200, seed=1).stats
            for prompt in ("class Stack:", "import os", "def bfs(graph):")
        ]
        rates.append(sum(s.accepted for s in runs) / sum(s.drafted for s in runs))
    assert (
        rates[0] == pytest.approx(0.9, abs=0.1)
        and rates[1] == pytest.approx(0.6, abs=0.12)
        and rates[0] > rates[1] + 0.1
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--width 250", "--width is 250; the small model has 256"),
        ("--width 300", "--width is 300; it must be a multiple of 32"),
        ("--ffn 1000", "--ffn is 1000; it must be a multiple of 32"),
        ("--layers 4", "--layers is 4"),
        ("--vocabulary 100", "--vocabulary is 100"),
        ("--heads 6 --kv-heads 4", "--kv-heads is 4; it must divide the 6 heads"),
        ("--heads 4 --kv-heads 1", "need 2"),
        ("--heads 6 --kv-heads 0", "--kv-heads is 0"),
        ("--vocabulary 5000", "needs a --width of at least 288"),
        ("--perturb -1", "--perturb is -1.0"),
        ("--acceptance 0.3", "--acceptance is 0.3; it must be between 0.5 and"),
        ("--model nowhere.gguf", "nowhere.gguf: no such file"),
    ],
)
def test_bad_arguments(
    widen: ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    given = options.split()
    if any(name in given for name in ("--perturb", "--acceptance")):
        given += ["--model", "target"]
    assert widen.main(["same", str(tmp_path / "out.gguf"), *given]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_other_models_are_rejected(
    widen: ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("not a model")
    out = str(tmp_path / "out")
    cases = {
        "qwen3": (make("qwen3").write(tmp_path / "qwen3"), "only llama"),
        "experts": (make("mixtral").write(tmp_path / "mixtral"), "only plain llama models"),
        "quantized": (make("llama").write(tmp_path / "q8_0", GgmlType.Q8_0), "is quantized"),
        "text": (tmp_path / "text", "not a GGUF file"),
    }
    for path, message in cases.values():
        assert widen.main(["same", out, "--model", str(path)]) == 1
        assert message in capsys.readouterr().err


def test_files_are_replaced_only_when_asked(
    widen: ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.gguf"
    out.write_text("precious")
    assert widen.main(["same", str(out)]) == 1
    assert "use --force to replace it" in capsys.readouterr().err and out.read_text() == "precious"
    assert widen.main(["same", str(out), "--force"]) == 0
    assert gguf.GGUFReader(out).tensors and [path.name for path in tmp_path.iterdir()] == ["out.gguf"]


def test_disk_space_is_checked_first(
    widen: ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5_000_000_000))
    assert widen.main(["7b", str(tmp_path / "out.gguf")]) == 1
    message = capsys.readouterr().err
    assert "would take 13.0 GB, and 5.0 GB are free" in message, message
    assert not list(tmp_path.iterdir())


def test_an_interrupted_file_is_removed(widen: ModuleType, tmp_path: pathlib.Path) -> None:
    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    small = widen.read(DRAFT)
    with pytest.raises(KeyboardInterrupt):
        widen.write(small, small.shape, tmp_path / "out.gguf", 0, interrupt)
    assert not list(tmp_path.iterdir())


def test_the_demos_script_runs_where_only_the_program_is_built() -> None:
    script = "import sys; sys.modules['specdec_native'] = None; import runpy; runpy.run_path('models/widen.py')"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
