"""Wheels and bare binaries of other platforms, cross-compiled with zig: a folder of wheels, and one archive per
platform.

python release/wheels.py [PLATFORM...]    `make wheels`: into dist; without names, every platform of the table below

A platform is compiled once. Only the extension module depends on Python's version (pybind11 does not use the stable
ABI): it is compiled for each of 3.10 to 3.14 whose headers are found, of an interpreter on the path or of pyenv, or
below .cache/debian (release/debian_python.sh); or for those that --pythons names.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass

import sbom

ROOT = pathlib.Path(__file__).parents[1]
VERSIONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
# The names by which CMake finds a compiler and its tools, and the commands of zig behind them.
TOOLS = {"clang": "cc", "clang++": "c++", "ar": "ar", "ranlib": "ranlib", "rc": "rc", "dlltool": "dlltool"}


@dataclass(frozen=True)
class Platform:
    target: str  # zig's name, with the oldest C library or system that the result runs on
    system: str  # CMake's names
    processor: str
    extension: str  # what the file name of a module for CPython {} ends in


# By the platform's tag in a wheel's name.
PLATFORMS = {
    "manylinux_2_28_x86_64": Platform("x86_64-linux-gnu.2.28", "Linux", "x86_64", ".cpython-{}-x86_64-linux-gnu.so"),
    "manylinux_2_28_aarch64": Platform(
        "aarch64-linux-gnu.2.28", "Linux", "aarch64", ".cpython-{}-aarch64-linux-gnu.so"
    ),
    "musllinux_1_2_x86_64": Platform("x86_64-linux-musl", "Linux", "x86_64", ".cpython-{}-x86_64-linux-musl.so"),
    "win_amd64": Platform("x86_64-windows-gnu", "Windows", "AMD64", ".cp{}-win_amd64.pyd"),
    "macosx_11_0_arm64": Platform("aarch64-macos.11.0", "Darwin", "arm64", ".cpython-{}-darwin.so"),
}


def write_if_changed(path: pathlib.Path, text: str) -> None:
    """A newer file, for ninja and ccache, is another one."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def zig_folder() -> pathlib.Path:
    import ziglang

    return pathlib.Path(ziglang.__file__).parent


def write_toolchain(platform: Platform, folder: pathlib.Path, zig: pathlib.Path) -> pathlib.Path:
    """CMake's toolchain file, and a script for each tool: CMake wants one word for each. The scripts' text names no
    folder, so that ccache finds in one checkout what another has compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zig").unlink(missing_ok=True)
    (folder / "zig").symlink_to(zig)
    version = subprocess.run([zig, "version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    # zig has -mcpu with names of its own for what clang calls -march. With instruction sets where it only links, as in
    # CMake's checks, it would compile one more libc++. It makes no bundles, which modules are on macOS by custom:
    # Python loads shared libraries as well.
    translation = """case " $* " in *" -c "* | *" -E "*) links= ;; *) links=1 ;; esac
for option; do
  shift
  case "$links$option" in
    1-m*) continue ;;
    -march=armv8.2-a*) option="-mcpu=generic+v8_2a$(echo "${option#-march=armv8.2-a}" | sed s/+fp16/+fullfp16/)" ;;
    1-bundle) option=-shared ;;
  esac
  set -- "$@" "$option"
done
"""
    for tool, command in TOOLS.items():
        compiles = command in ("cc", "c++")
        # Optimised unless CMake says how: its checks of the compiler would have zig compile a second libc++, for
        # debugging. Without -g0 zig adds debug information.
        target = f" -target {platform.target} -O2 -g0" if compiles else ""
        if compiles and platform.target.endswith("-musl"):
            target += " -dynamic"  # as Alpine's own programs, which find libraries while they run (libcurl)
        script = f"""#!/bin/sh
# of zig {version}: for ccache, which compares this file, not zig
{translation if compiles else ""}exec "${{0%/*}}/zig" {command}{target} "$@"
"""
        write_if_changed(folder / tool, script)
        (folder / tool).chmod(0o755)
    lines = [
        f"set(CMAKE_SYSTEM_NAME {platform.system})",
        f"set(CMAKE_SYSTEM_PROCESSOR {platform.processor})",
        f'set(CMAKE_C_COMPILER "{folder / "clang"}")',
        f'set(CMAKE_CXX_COMPILER "{folder / "clang++"}")',
        f'set(CMAKE_AR "{folder / "ar"}" CACHE FILEPATH "")',
        f'set(CMAKE_RANLIB "{folder / "ranlib"}" CACHE FILEPATH "")',
        "set(CMAKE_EXE_LINKER_FLAGS_INIT -s)",
        "set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)",
        "set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)",
        "set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)",
        "set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)",
    ]
    if platform.system == "Darwin":
        lines.append(
            "set(CMAKE_INSTALL_NAME_TOOL true)  # CMake asks for it; nothing here is a shared library that others link"
        )
    write_if_changed(folder / "toolchain.cmake", "\n".join(lines) + "\n")
    return folder / "toolchain.cmake"


def interpreters() -> list[str]:
    """Those of Python 3.10 to 3.14 that are on the path, or that pyenv has."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    named = [
        name
        for version in VERSIONS
        for name in (shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python3"))
    ]
    return [str(name) for name in named if name is not None]


def headers_of(python: str) -> tuple[str, str] | None:
    """The version and the folder of the headers of an interpreter, or of such a folder; None if it does not run or
    has none."""
    folder = pathlib.Path(python)
    if not folder.is_dir():
        question = "import sysconfig; print(sysconfig.get_path('include'))"
        answer = subprocess.run([python, "-c", question], capture_output=True, text=True)
        folder = pathlib.Path(answer.stdout.strip() if answer.returncode == 0 else "no-folder")
    if not (folder / "Python.h").exists():
        return None
    return sbom.found(folder / "patchlevel.h", r"PY_MAJOR_VERSION\s+(\d+)[\s\S]*?PY_MINOR_VERSION\s+(\d+)"), str(folder)


def find_pythons(named: list[str]) -> dict[str, str]:
    """Folders of headers by version."""
    of_debian = map(str, ROOT.glob(".cache/debian/*-amd64/usr/include/python3.*"))
    found = {name: headers_of(name) for name in named or [*of_debian, *interpreters()]}
    if named and (missing := [name for name, headers in found.items() if headers is None]):
        raise ValueError(f"{missing[0]} does not run or has no headers (Debian: python3-dev)")
    by_version = dict(headers for headers in found.values() if headers is not None)
    return {version: by_version[version] for version in VERSIONS if version in by_version}


def declared_names(headers: pathlib.Path) -> list[str]:
    """The functions and data (marked so) that CPython's headers declare: lines of a module definition file."""
    declaration = re.compile(r"PyAPI_(FUNC|DATA)\([^()]*\)\s*(?:_Py_NO_RETURN\s+)?\*?\s*(\w+)")
    texts = [path.read_text(encoding="utf-8") for path in sorted(headers.rglob("*.h"))]
    return sorted(
        {name + (" DATA" if kind == "DATA" else "") for text in texts for kind, name in declaration.findall(text)}
    )


def import_library(dll: str, names: list[str], library: pathlib.Path, dlltool: pathlib.Path) -> None:
    """Makes what Windows' linker needs for a DLL: a library of its names."""
    definitions = library.with_suffix(".def")
    write_if_changed(definitions, "\n".join([f"LIBRARY {dll}", "EXPORTS", *names, ""]))
    files = ["-d", str(definitions), "-l", str(library)]
    subprocess.run([dlltool, "-m", "i386:x86-64", *files], check=True)


def headers_for(platform: Platform, version: str, include: str, folder: pathlib.Path, dlltool: pathlib.Path) -> None:
    """Copies a Python's headers into a folder, with the pyconfig.h of all platforms. On Windows a module is linked with
    a library of the names that Python's DLL has: python.lib, for all names that the headers declare."""
    shutil.copytree(include, folder, ignore=shutil.ignore_patterns("pyconfig.h", "internal"), dirs_exist_ok=True)
    shutil.copy2(ROOT / "release" / "pyconfig.h", folder)
    if platform.system == "Windows":
        dll = f"python{version.replace('.', '')}.dll"
        import_library(dll, declared_names(folder), folder / "python.lib", dlltool)


def vulkan_library(headers: pathlib.Path, folder: pathlib.Path, dlltool: pathlib.Path) -> pathlib.Path:
    """The library of the names that Vulkan's loader has on Windows, for all functions that the headers declare."""
    folder.mkdir(exist_ok=True)
    text = (headers / "include" / "vulkan" / "vulkan_core.h").read_text(encoding="utf-8")
    library = folder / "vulkan-1.lib"
    import_library("vulkan-1.dll", sorted(set(re.findall(r"VKAPI_CALL (vk\w+)\(", text))), library, dlltool)
    return library


def build(name: str, pythons: dict[str, str], emulator: str = "", vulkan: pathlib.Path | None = None) -> pathlib.Path:
    """Compiles a platform's program and extension modules, with an emulator also the C++ tests, with the folder of
    release/vulkan_sdk.sh also the module for GPUs (Windows); returns the build's folder."""
    platform = PLATFORMS[name]
    folder = ROOT / "build" / "wheels" / name
    toolchain = write_toolchain(platform, folder / "zig", zig_folder() / "zig")
    modules = []
    for version, include in pythons.items():
        headers = folder / f"python{version}"
        headers_for(platform, version, include, headers, folder / "zig" / "dlltool")
        modules.append(platform.extension.format(version.replace(".", "")) + f"={headers}")
    options = {
        "CMAKE_TOOLCHAIN_FILE": toolchain,
        "CMAKE_BUILD_TYPE": "Release",
        "Python_EXECUTABLE": sys.executable,
        "SPECDEC_PORTABLE": "ON",
        "SPECDEC_PYTHON": "ON",
        "SPECDEC_TESTS": "ON" if emulator else "OFF",
        "CMAKE_CROSSCOMPILING_EMULATOR": emulator,
        "SPECDEC_BENCH": "OFF",
        "SPECDEC_WERROR": "OFF",
        "SPECDEC_MODULES": ";".join(modules),
    }
    if vulkan:
        library = vulkan_library(vulkan, folder / "vulkan", folder / "zig" / "dlltool")
        options |= {"SPECDEC_VULKAN": "ON", "SPECDEC_VULKAN_SDK": vulkan, "SPECDEC_VULKAN_LIBRARY": library}
    definitions = [f"-D{option}={value}" for option, value in options.items()]
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(ROOT / ".cache" / "zig"), "CCACHE_COMPILERCHECK": "content"}
    how = ["-G", "Ninja", "--log-level=WARNING", *definitions]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *how], check=True, env=environment)
    targets = ["all", "test_programs"] if emulator else ["all"]
    subprocess.run(["cmake", "--build", folder, "--target", *targets], check=True, env=environment)
    return folder


def metadata(folder: pathlib.Path) -> pathlib.Path:
    """The wheel's .dist-info, which the build backend writes from pyproject.toml."""
    from scikit_build_core.build import prepare_metadata_for_build_wheel

    before = pathlib.Path.cwd()
    os.chdir(ROOT)
    try:
        return folder / prepare_metadata_for_build_wheel(str(folder))
    finally:
        os.chdir(before)


def licences(platform: Platform) -> dict[str, pathlib.Path]:
    """File names and texts: ours, those of what we compile in, and those of the libraries that zig links."""
    zig = zig_folder() / "lib"
    texts = {name: ROOT / name for name in ("LICENSE", "THIRD_PARTY_LICENSES")}
    texts["LICENSE-libcxx"] = zig / "libcxx" / "LICENSE.TXT"
    if platform.system == "Windows":
        texts["LICENSE-mingw-w64"] = zig / "libc" / "mingw" / "COPYING"
    return texts


def program(built: pathlib.Path) -> pathlib.Path:
    (path,) = (path for path in (built / "specdec", built / "specdec.exe") if path.exists())
    return path


def write_share(built: pathlib.Path, folder: pathlib.Path) -> None:
    """Completions and manual pages, which are the same everywhere: by the program, or one of another platform that runs
    here."""
    others = sorted(ROOT.glob("build/wheels/*/specdec"))
    for candidate in (program(built), ROOT / "build" / "default" / "specdec", *others):
        try:
            command = [str(candidate), "completions", "--folder", str(folder)]
            if subprocess.run(command, capture_output=True, timeout=60).returncode == 0:
                return
        except OSError:  # of another system or processor
            continue
    raise ValueError("no program runs here that could write completions and manual pages; run `make build` first")


def write_zip(path: pathlib.Path, top: str, files: dict[str, pathlib.Path]) -> pathlib.Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, file in files.items():
            archive.write(file, f"{top}/{member}")
    return path


def pack_module(name: str, built: pathlib.Path, dist: pathlib.Path) -> pathlib.Path:
    """The module for GPUs with Vulkan (Windows), to be put next to the program, and the licences."""
    import binaries

    module = built / "specdec-vulkan.dll"
    if problems := list(binaries.pe_problems(module, "vulkan-1.dll", "specdec_device_module_table")):
        raise ValueError(f"{module.name} {'; '.join(problems)}")
    top = f"specdec-vulkan-{sbom.project_version()}-{name}"
    return write_zip(dist / f"{top}.zip", top, {module.name: module} | licences(PLATFORMS[name]))


def pack_archive(name: str, built: pathlib.Path, dist: pathlib.Path) -> pathlib.Path:
    """The program, the bundled models where it looks for them, completions and manual pages, and the licences."""
    top = f"specdec-{sbom.project_version()}-{name}"
    files = {program(built).name: program(built)} | licences(PLATFORMS[name])
    files |= {f"models/{path.name}": path for path in (*ROOT.glob("models/*-f16.gguf"), ROOT / "models" / "README.md")}
    if PLATFORMS[name].system != "Windows":
        share = built / "share"
        write_share(built, share)
        files |= {f"share/{path.relative_to(share)}": path for path in sorted(share.rglob("*")) if path.is_file()}
    if PLATFORMS[name].system == "Windows":
        return write_zip(dist / f"{top}.zip", top, files)
    path = dist / f"{top}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member, file in files.items():
            tar.add(file.resolve(), f"{top}/{member}")
    return path


def pack_wheel(name: str, version: str, built: pathlib.Path, dist: pathlib.Path) -> pathlib.Path:
    python = "cp" + version.replace(".", "")
    extension = "_core" + PLATFORMS[name].extension.format(version.replace(".", ""))
    with tempfile.TemporaryDirectory() as stage_name:
        stage = pathlib.Path(stage_name)
        package = stage / "specdec_native"
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
        shutil.copytree(ROOT / "python" / "specdec_native", package, ignore=ignored)
        # The bundled models and every extension module, of which one is this wheel's.
        install = ["cmake", "--install", str(built), "--prefix", str(package), "--component", "python"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        for module in package.glob("_core.*"):
            if module.is_file() and module.name != extension:
                module.unlink()
        information = metadata(stage)
        tags = (
            f"Wheel-Version: 1.0\nGenerator: release/wheels.py\nRoot-Is-Purelib: false\nTag: {python}-{python}-{name}\n"
        )
        (information / "WHEEL").write_text(tags, encoding="utf-8")
        for text, path in licences(PLATFORMS[name]).items():
            shutil.copy(path, information / "licenses" / text)
        data = stage / (information.name.removesuffix(".dist-info") + ".data")
        (data / "scripts").mkdir(parents=True)
        shutil.copy2(program(built), data / "scripts")
        if PLATFORMS[name].system != "Windows":
            write_share(built, data / "data" / "share")
        pack = [sys.executable, "-m", "wheel", "pack", str(stage), "--dest-dir", str(dist)]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = dist.glob(f"*-{python}-{python}-{name}.whl")
    return wheel


def is_covered(name: str, shown: str) -> bool:
    """Whether what auditwheel says of a wheel is the platform of this name, or one with an older C library."""
    tag = r"(\w+linux)_(\d+)_(\d+)_(\w+)"
    wanted, found = re.search(tag, name), re.search(r'platform\s+tag:\s+"' + tag, shown)
    if wanted is None or found is None or wanted.group(1, 4) != found.group(1, 4):
        return False
    return [int(number) for number in found.group(2, 3)] <= [int(number) for number in wanted.group(2, 3)]


def minimum_macos(name: str) -> tuple[int, int]:
    major, minor = name.removeprefix("macosx_").split("_")[:2]
    return int(major), int(minor)


def check_wheel(name: str, wheel: pathlib.Path) -> None:
    """That the tag in the wheel's name holds: no newer symbol, and no library that the platform may lack."""
    if "manylinux" in name:  # auditwheel knows musl only where it runs with musl
        show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
        shown = subprocess.run(show, check=True, stdout=subprocess.PIPE, text=True).stdout
        if not is_covered(name, shown):
            raise ValueError(f"{wheel.name} is not what its name says:\n{shown}")
        return
    import binaries

    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        (module,) = pathlib.Path(folder, "specdec_native").glob("_core.*.*")
        (executable,) = pathlib.Path(folder).glob("*.data/scripts/specdec*")
        python = wheel.stem.split("-")[-3].replace("cp", "python") + ".dll"
        for file in (module, executable):
            if PLATFORMS[name].system == "Darwin":
                problems = list(binaries.mach_o_problems(file, minimum_macos(name)))
            elif PLATFORMS[name].system == "Linux":
                problems = list(binaries.musl_problems(file))
            else:
                expected = (python, "PyInit__core") if file == module else ("", "")
                problems = list(binaries.pe_problems(file, *expected))
            if problems:
                raise ValueError(f"{wheel.name}: {file.name} {'; '.join(problems)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the wheels and archives of other platforms.")
    parser.add_argument("platforms", metavar="PLATFORM", nargs="*", help=", ".join(PLATFORMS))
    parser.add_argument(
        "--pythons",
        metavar="PYTHON",
        nargs="+",
        default=[],
        help="interpreters or folders of headers, instead of those found",
    )
    parser.add_argument("--vulkan", metavar="SDK", type=pathlib.Path, help="also the module for GPUs (Windows)")
    parser.add_argument("--emulator", default="", help="a command, for example qemu-aarch64: runs the C++ tests, too")
    parser.add_argument(
        "--dist", type=pathlib.Path, default=ROOT / "dist", help="the folder for the results (%(default)s)"
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.platforms if name not in PLATFORMS]:
        raise ValueError(f"{unknown[0]} is none of {', '.join(PLATFORMS)}")
    pythons = find_pythons(arguments.pythons)
    if not pythons:
        raise ValueError(
            f"no Python of {VERSIONS[0]} to {VERSIONS[-1]} with headers was found (Debian: python3-dev); "
            "--pythons names some"
        )
    arguments.dist.mkdir(parents=True, exist_ok=True)
    for name in arguments.platforms or PLATFORMS:
        vulkan = arguments.vulkan if PLATFORMS[name].system == "Windows" else None
        built = build(name, pythons, arguments.emulator.replace(" ", ";"), vulkan and vulkan.resolve())
        if arguments.emulator:
            tests = [
                "ctest",
                "--test-dir",
                str(built),
                "--output-on-failure",
                "--no-tests=error",
                "--parallel",
                str(os.cpu_count()),
            ]
            subprocess.run(tests, check=True)
        print(pack_archive(name, built, arguments.dist))
        if vulkan:
            print(pack_module(name, built, arguments.dist))
        for version in pythons:
            wheel = pack_wheel(name, version, built, arguments.dist)
            check_wheel(name, wheel)
            print(wheel)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(str(error))
