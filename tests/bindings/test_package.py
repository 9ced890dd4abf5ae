"""The wheel in a clean environment, and the type stubs."""

import filecmp
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import venv
import zipfile

import make_stubs
import pytest
from tests.server.running import serving

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "specdec_native"


def test_stubs_are_those_of_the_built_extension(tmp_path: pathlib.Path) -> None:
    make_stubs.main(tmp_path)
    made = sorted(path.relative_to(tmp_path / "specdec_native") for path in tmp_path.rglob("*.pyi"))
    committed = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.pyi"))
    assert made == committed and made
    for name in made:
        assert filecmp.cmp(tmp_path / "specdec_native" / name, PACKAGE / name, shallow=False), (
            f"{name}: run `make stubs`"
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The one that SPECDEC_WHEEL names; else built in place, reusing up-to-date objects and llama.cpp."""
    if given := os.environ.get("SPECDEC_WHEEL"):
        return ROOT / given
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=1500)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_everything(wheel: pathlib.Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    models = [f"models/stdlib-{name}-f16.gguf" for name in ("target", "draft", "head")]
    for wanted in ["py.typed", "__init__.py", "_core/__init__.pyi", *models]:
        assert f"specdec_native/{wanted}" in names
    assert any(name.startswith("specdec_native/_core.") and name.endswith((".so", ".pyd")) for name in names)
    assert any(name.endswith(".data/scripts/specdec") for name in names)
    for name in ["LICENSE", "THIRD_PARTY_LICENSES"]:
        assert any(member.endswith(f".dist-info/licenses/{name}") for member in names)
    assert wheel.stat().st_size < 40e6


def test_the_licences_are_those_of_what_is_inside() -> None:
    """The texts that come with the pinned versions."""
    text = (ROOT / "THIRD_PARTY_LICENSES").read_text()
    (llama_cpp,) = {path.read_text().strip() for path in (ROOT / ".cache").glob("llama.cpp-*/LICENSE")}
    assert llama_cpp in text
    (xgrammar,) = {path.read_text().strip("\n") for path in (ROOT / ".cache").glob("xgrammar-*/LICENSE")}
    assert xgrammar in text
    files = importlib.metadata.files("pybind11") or []
    (pybind11,) = [file.read_text() for file in files if file.name == "LICENSE"]
    assert pybind11.strip() in text


def test_the_wheel_works_in_a_clean_environment(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPECDEC"))}

    def run(*command: str | pathlib.Path) -> str:
        arguments = [str(part) for part in command]
        result = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=600)
        assert result.returncode == 0, result.stderr
        return result.stdout

    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    code = "import specdec_native as sd; c = sd.Generator().generate('import os', max_tokens=9, seed=1)"
    code += "; print(sd.__file__, len(c.tokens))"
    place, count = run(python, "-c", code).split()
    assert place.startswith(str(tmp_path)) and count == "9"
    specdec = tmp_path / "env" / "bin" / "specdec"
    assert run(specdec, "generate", "-p", "import os", "-n", "9", "--seed", "1").strip()
    with serving(specdec) as server:
        assert server.text(max_tokens=9, seed=1)


def test_the_binary_works_copied_out_beside_its_models(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    binary = tmp_path / "specdec"
    binary.write_bytes(specdec.read_bytes())
    binary.chmod(0o755)
    for model in (ROOT / "models").glob("*-f16.gguf"):
        (tmp_path / model.name).write_bytes(model.read_bytes())
    command = [str(binary), "generate", "-p", "import os", "-n", "9", "--seed", "1"]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", env={}, timeout=120)
    assert result.returncode == 0 and result.stdout.strip(), result.stderr
    libraries = subprocess.run(["ldd", str(binary)], capture_output=True, text=True).stdout
    assert "libgomp" not in libraries and "libpython" not in libraries


def test_usage_type_checks(tmp_path: pathlib.Path) -> None:
    (tmp_path / "use.py").write_text(
        "import specdec_native as sd\n"
        "gen = sd.Generator(target='t', draft='ngram', n_ctx=64)\n"
        "for piece in gen.stream('x', max_tokens=3, stop='y'):\n"
        "    text: str = piece.text\n"
        "    flag: bool = piece.from_draft\n"
        "rate: float = gen.stats.acceptance_rate\n"
        "tokens: list[int] = gen.generate([1, 2]).tokens\n"
        "verdict = sd.sampling.verify_token([0], [[1.0]], [[1.0], [1.0]], [0.5, 0.5])\n"
        "count: int = verdict.num_accepted\n"
    )
    (tmp_path / "misuse.py").write_text("import specdec_native as sd\nsd.Generator().stream(3.5)\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "python")}
    good = subprocess.run([*command, "use.py"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert good.returncode == 0, good.stdout
    bad = subprocess.run([*command, "misuse.py"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert bad.returncode == 1 and "arg-type" in bad.stdout, bad.stdout
