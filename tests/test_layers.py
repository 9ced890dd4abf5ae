"""The folders of cpp/ use each other one way only, and only cpp/llama names llama.cpp."""

import pathlib
import re

CPP = pathlib.Path(__file__).parents[1] / "cpp"
MAY_USE = {
    "attention": set(),
    "dense": set(),
    "mxfp6": set(),
    "sampling": set(),
    "speculative": {"sampling"},
    "llama": {"speculative", "sampling", "mxfp6", "attention", "dense"},
    "engine": {"llama", "speculative", "sampling"},
    "bindings": {"engine", "llama", "speculative", "sampling", "mxfp6"},
    "cli": {"engine", "llama", "speculative", "sampling", "mxfp6"},
}
UPSTREAM = re.compile(r"(llama|ggml[\w-]*|gguf|traits|ops)\.h")
ISA_FILE = re.compile(r"(matmul|attention)_(?!scalar)\w+\.cpp")


def includes(path: pathlib.Path) -> list[str]:
    return re.findall(r'^#include\s+[<"]([^">]+)[">]', path.read_text(encoding="utf-8"), re.MULTILINE)


def sources() -> list[tuple[str, pathlib.Path]]:
    found = [(path.relative_to(CPP).parts[0], path) for path in CPP.rglob("*") if path.suffix in {".h", ".cpp"}]
    assert len(found) > 40
    return found


def test_every_folder_is_known() -> None:
    assert {folder for folder, _ in sources()} == set(MAY_USE)


def test_folders_use_only_what_they_may() -> None:
    for folder, path in sources():
        for name in includes(path):
            used = name.split("/", 1)[0] if "/" in name else None
            if used in MAY_USE:
                assert used == folder or used in MAY_USE[folder], f"{path.relative_to(CPP)} includes {name}"


def test_only_the_llama_folder_names_llama_cpp() -> None:
    for folder, path in sources():
        if folder != "llama":
            assert not [name for name in includes(path) if UPSTREAM.fullmatch(name)], path
        if folder != "bindings":
            assert not [name for name in includes(path) if name.startswith("pybind11")], path


def test_kernels_of_one_instruction_set_share_no_inline_code_with_others() -> None:
    """A linker keeps one copy of an inline function, perhaps the one compiled for AVX-512."""
    allowed = {"cstdint", "cstddef", "immintrin.h", "arm_neon.h", "mxfp6/format.h", "mxfp6/matmul.h"}
    # What follows goes into anonymous namespaces.
    allowed |= {"attention/attention.h", "attention/attention_kernel.h", "attention/attention_x86.h"}
    allowed |= {"mxfp6/matmul_ymm.h"}
    allowed |= {"dense/matmul.h", "dense/matmul_kernel.h"}
    for _, path in sources():
        if ISA_FILE.fullmatch(path.name):
            assert set(includes(path)) <= allowed, path


def test_only_the_command_line_prints() -> None:
    printing = re.compile(r"\b(std::cout|std::cerr|printf|fprintf|puts|fputs)\b")
    for folder, path in sources():
        if folder != "cli":
            assert not printing.search(path.read_text(encoding="utf-8")), path


def test_everything_is_built() -> None:
    for folder, path in sources():
        if path.suffix == ".cpp":
            assert path.name in (CPP / folder / "CMakeLists.txt").read_text(encoding="utf-8"), path
