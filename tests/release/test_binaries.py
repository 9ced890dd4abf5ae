"""What release/binaries.py says of small programs and modules that zig links here."""

import pathlib
import subprocess

import pytest

pytest.importorskip("lief")
ziglang = pytest.importorskip("ziglang")

import binaries  # noqa: E402

PROGRAM = "int main(void) { return 0; }"
MODULE = """
#ifdef _WIN32
__declspec(dllexport)
#endif
void *PyInit__core(void) { return 0; }
"""


def linked(folder: pathlib.Path, target: str, source: str, *options: str) -> pathlib.Path:
    zig = pathlib.Path(ziglang.__file__).with_name("zig")
    (folder / "a.c").write_text(source)
    command = [zig, "cc", "-target", target, "-O2", "-g0", "-s", "a.c", "-o", "a.out", *options]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return folder / "a.out"


def test_a_program_for_macos(tmp_path: pathlib.Path) -> None:
    program = linked(tmp_path, "aarch64-macos.11.0", PROGRAM)
    assert list(binaries.mach_o_problems(program, (11, 0))) == []
    assert list(binaries.mach_o_problems(program, (10, 15))) == ["needs macOS 11.0.0"]
    content = bytearray(program.read_bytes())
    content[0x1000] ^= 1
    program.write_bytes(content)
    assert list(binaries.mach_o_problems(program, (11, 0))) == ["was changed after it was signed"]


def test_a_module_for_macos(tmp_path: pathlib.Path) -> None:
    undefined = ["-shared", "-Wl,-undefined,dynamic_lookup"]
    calls = "void Py_Call(void); void other(void); void f(void) { Py_Call(); other(); }"
    assert list(
        binaries.mach_o_problems(linked(tmp_path, "aarch64-macos.11.0", MODULE + calls, *undefined), (11, 0))
    ) == ["_other is undefined"]
    assert list(binaries.mach_o_problems(linked(tmp_path, "aarch64-macos.11.0", "int f;", *undefined), (11, 0))) == [
        "does not export PyInit__core"
    ]


def test_files_for_windows(tmp_path: pathlib.Path) -> None:
    no_start_files = ["-nostdlib", "-Wl,-e,start"]  # zig would first compile mingw-w64's C library, in minutes
    start = "void exit(int); int __stdcall GetLastError(void); void start(void) { exit(GetLastError()); }"
    libraries = ["-lkernel32", "-lapi-ms-win-crt-runtime-l1-1-0"]
    program = linked(tmp_path, "x86_64-windows-gnu", start, *no_start_files, *libraries)
    assert list(binaries.pe_problems(program)) == []
    assert list(binaries.mach_o_problems(program, (11, 0))) == ["is no Mach-O file for arm64"]
    library = [*no_start_files, "-shared"]
    load = "int __stdcall start(void* module, unsigned reason, void* reserved) { return 1; }"
    module = linked(tmp_path, "x86_64-windows-gnu", MODULE + load, *library)
    assert list(binaries.pe_problems(module, "python311.dll", "PyInit__core")) == []
    window = "int __stdcall MessageBoxA(void*, void*, void*, unsigned); int f(void) { return MessageBoxA(0, 0, 0, 0); }"
    module = linked(tmp_path, "x86_64-windows-gnu", window + load, *library, "-luser32")
    assert list(binaries.pe_problems(module, "python311.dll", "PyInit__core")) == [
        "needs USER32.dll",
        "does not export PyInit__core",
    ]


def test_files_for_musl(tmp_path: pathlib.Path) -> None:
    program = linked(tmp_path, "x86_64-linux-musl", PROGRAM, "-dynamic")
    assert list(binaries.musl_problems(program)) == []
    assert list(binaries.pe_problems(program)) == ["is no PE file for x86-64"]
    module = linked(
        tmp_path, "x86_64-linux-musl", MODULE + "int Py_Call(void); int f(void) { return Py_Call(); }", "-shared"
    )
    assert list(binaries.musl_problems(module)) == [] and "Py_Call" in binaries.undefined_names(module)
    assert list(binaries.musl_problems(linked(tmp_path, "x86_64-linux-gnu.2.28", PROGRAM))) == [
        "needs libc.so.6",
        "is loaded by /lib64/ld-linux-x86-64.so.2",
    ]
    assert list(binaries.musl_problems(linked(tmp_path, "x86_64-linux-musl", "int f;", "-shared"))) == [
        "does not export PyInit__core"
    ]
