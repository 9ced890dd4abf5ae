"""What `make release` makes, and how a build says what it lacks."""

import datetime
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import sbom

import release

ROOT = pathlib.Path(__file__).parents[2]


def test_the_bill_of_materials_names_what_the_licences_name() -> None:
    headings = re.findall(
        r"^={50,}\n(.+)\n={50,}$", (ROOT / "THIRD_PARTY_LICENSES").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = set(re.findall(r"\((https://[^)]+)\)", "\n".join(headings)))
    listed = [address for _, _, _, address in sbom.components()]
    assert named == set(listed) and len(listed) == len(named) > 5


def test_the_bill_of_materials_has_versions_and_licences() -> None:
    bill = sbom.bill()
    components = bill["components"]
    assert isinstance(components, list) and len({component["bom-ref"] for component in components}) == len(components)
    versions = {component["name"]: component["version"] for component in components}
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions["nlohmann/json"]) and re.fullmatch(
        r"\d+\.\d+\.\d+", versions["cpp-httplib"]
    )
    assert all(component["version"] and component["licenses"] for component in components)


def test_a_version_is_cut_in_both_files() -> None:
    project = '[project]\nversion = "0.1.0"\nminimum-version = "1.1"\n'
    changed = release.cut(project, "# Changelog\n\n## Unreleased\n\n- a\n", "0.2.0", datetime.date(2026, 12, 1))
    assert changed[0] == project.replace("0.1.0", "0.2.0")
    assert changed[1] == "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n- a\n"
    with pytest.raises(ValueError, match="has a section"):
        release.cut(*changed, "0.2.0", datetime.date(2026, 12, 1))
    with pytest.raises(ValueError, match="no version"):
        release.cut(project, changed[1], "v3", datetime.date(2026, 12, 1))
    with pytest.raises(ValueError, match="must have one line"):
        release.cut("", changed[1], "0.3.0", datetime.date(2026, 12, 1))


def test_the_program_has_the_version_of_the_project(specdec: pathlib.Path) -> None:
    answer = subprocess.run([str(specdec), "--version"], capture_output=True, text=True, check=True)
    assert sbom.project_version() in answer.stdout


def test_the_source_package_holds_what_a_build_needs(tmp_path: pathlib.Path) -> None:
    path = release.make_sdist(tmp_path)
    with tarfile.open(path) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames()}
    needed = {
        "CMakeLists.txt",
        "cmake/LlamaCpp.cmake",
        "cpp/cli/main.cpp",
        "models/stdlib-target-f16.gguf",
        "THIRD_PARTY_LICENSES",
    }
    needed |= {
        "third_party/llama.cpp/fetch.py",
        "third_party/llama.cpp/patches/0001-mxfp6-types.patch",
        "pyproject.toml",
    }
    assert needed <= names
    assert not [name for name in names if name.startswith((".cache", ".venv", "build/", "dist/", "bench/"))]
    assert path.stat().st_size < 40e6


def test_the_source_package_needs_no_network(tmp_path: pathlib.Path) -> None:
    """With llama.cpp and xgrammar in folders, it is configured, after which everything that a build compiles is
    there."""
    isolate = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*isolate, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine lets nobody make namespaces")
    with tarfile.open(release.make_sdist(tmp_path)) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("specdec_native-*/")
    # As they were before our patches: what a user would have.
    checkout = tmp_path / "llama.cpp"
    shutil.copytree(sbom.source("llama.cpp"), checkout)
    for patch in sorted((source / "third_party" / "llama.cpp" / "patches").glob("*.patch"), reverse=True):
        subprocess.run(["git", "apply", "-R", "--whitespace=nowarn", str(patch)], cwd=checkout, check=True)
    grammars = tmp_path / "xgrammar"
    shutil.copytree(sbom.source("xgrammar"), grammars)
    for patch in sorted((source / "third_party" / "xgrammar" / "patches").glob("*.patch"), reverse=True):
        subprocess.run(["git", "apply", "-R", "--whitespace=nowarn", str(patch)], cwd=grammars, check=True)
    folders = [
        f"-DSPECDEC_LLAMA_CPP_DIR={checkout}",
        f"-DSPECDEC_XGRAMMAR_DIR={grammars}",
        "-DSPECDEC_TESTS=OFF",
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECDEC")}
    command = [*isolate, "cmake", "-S", str(source), "-B", str(tmp_path / "build"), "-G", "Ninja", *folders]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert (source / ".cache").exists() and (tmp_path / "build" / "build.ninja").exists()


def test_homebrews_formula_has_the_archives_checksums(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="macosx_11_0_arm64"):
        release.formula(tmp_path, "0.2.0", "https://example.org/v0.2.0")
    for platform in ("macosx_11_0_arm64", "manylinux_2_28_x86_64", "manylinux_2_28_aarch64"):
        (tmp_path / f"specdec-0.2.0-{platform}.tar.gz").write_text(platform)
    text = release.formula(tmp_path, "0.2.0", "https://example.org/v0.2.0")
    assert text.startswith("class Specdec < Formula\n") and "@" not in text
    assert 'url "https://example.org/v0.2.0/specdec-0.2.0-manylinux_2_28_aarch64.tar.gz"' in text
    for line in re.findall(r'sha256 "(.*)"', text):
        assert line in {hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert len(set(re.findall(r'sha256 "(.*)"', text))) == 3
    ruby = shutil.which("ruby")
    if ruby is not None:
        assert subprocess.run([ruby, "-c"], input=text, text=True, capture_output=True).returncode == 0


def test_checksums_are_those_that_sha256sum_checks(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "b.tar.gz").write_bytes(b"b")
    release.write_checksums(tmp_path)
    check = ["sha256sum", "--check", "--strict", release.SUMS]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "a.whl").write_bytes(b"c")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode != 0


def test_without_a_compiler_it_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    cmake = pathlib.Path(sys.executable).with_name("cmake")
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "LANG": os.environ.get("LANG", "C")}
    command = [str(cmake), "-S", str(ROOT), "-B", str(tmp_path / "build")]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    message = " ".join(result.stderr.split())
    assert result.returncode != 0 and "no C++17 compiler was found; install one" in message
    assert message.count("CMake Error") == 1


def test_workflows_are_what_github_runs(tmp_path: pathlib.Path) -> None:
    actionlint = pathlib.Path(sys.executable).with_name("actionlint")
    if not actionlint.exists():
        pytest.skip("no actionlint for this platform")

    def check(*workflows: pathlib.Path) -> tuple[int, str]:
        command = [str(actionlint), "-shellcheck=", "-pyflakes=", "-no-color", *map(str, workflows)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        return result.returncode, result.stdout + result.stderr

    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows and check(*workflows) == (0, "")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        (ROOT / ".github" / "workflows" / "release.yml").read_text().replace("needs: windows-wheels", "needs: wheel")
    )
    code, messages = check(wrong)
    assert code == 1 and 'needs job "wheel"' in messages
