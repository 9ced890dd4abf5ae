"""Dependencies between the folders of cpp/ go one way, and only few folders use llama.cpp or the operating system."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.quick

CPP = pathlib.Path(__file__).parents[1] / "cpp"
# In the order of the layers; what a folder may include besides itself.
MAY_USE = {
    "base": set(),
    "platform": {"base"},
    "pictures": {"base", "platform"},
    "streaming": {"base", "platform"},
    "disk_cache": {"base", "platform"},
    "gguf": {"base", "platform"},
    "model_file": {"base", "platform", "gguf"},
    "hub": {"base", "platform", "gguf"},
    "weights": {"base"},
    "attention": {"base"},
    "sampling": {"base"},
    "constraints": {"base", "sampling"},
    "speculative": {"base", "sampling"},
    "graph": {"base", "streaming", "weights", "attention"},
    "chat": {"base", "pictures"},
    "llama": {
        "base",
        "platform",
        "pictures",
        "streaming",
        "disk_cache",
        "gguf",
        "model_file",
        "graph",
        "speculative",
        "sampling",
    },
    "quantize": {"base", "platform", "gguf", "weights", "llama", "speculative", "sampling"},
    "engine": {
        "base",
        "platform",
        "pictures",
        "streaming",
        "disk_cache",
        "gguf",
        "model_file",
        "hub",
        "llama",
        "chat",
        "speculative",
        "sampling",
        "constraints",
    },
    "server": {"base", "platform", "pictures", "llama", "chat", "sampling", "speculative", "engine"},
    "bindings": {
        "base",
        "platform",
        "pictures",
        "gguf",
        "model_file",
        "hub",
        "weights",
        "sampling",
        "speculative",
        "llama",
        "chat",
    }
    | {"quantize", "engine"},
    "cli": {
        "base",
        "platform",
        "pictures",
        "streaming",
        "disk_cache",
        "gguf",
        "model_file",
        "hub",
        "graph",
        "weights",
        "sampling",
        "speculative",
        "llama",
        "chat",
    }
    | {"quantize", "engine", "server"},
}
UPSTREAM = re.compile(r"(llama|ggml[\w-]*|gguf|traits|ops)\.h")
# Headers of operating systems, and the macros that tell these apart.
SYSTEM_HEADER = re.compile(
    r"(sys|arpa|netinet|net|mach|linux)/.*|"
    r"(unistd|fcntl|poll|netdb|spawn|termios|sched|dlfcn|pthread|windows|winsock2|io)\.h"
)
SYSTEM_MACRO = re.compile(r"^#.*\b(_WIN32|__APPLE__|__linux__|__unix__|_MSC_VER)\b", re.MULTILINE)
# Outside platform/, with the reason.
KNOWS_THE_SYSTEM = {
    "base/cpu_features.cpp": "instruction sets are asked of the system on ARM; kernels, which need them, may "
    "not use platform",
}
ISA_FILE = re.compile(r"(matmul|attention|row_loops|calibration_loops)_(?!scalar|body)\w+\.cpp")


def includes(path: pathlib.Path) -> list[str]:
    return re.findall(r'^#include\s+[<"]([^">]+)[">]', path.read_text(encoding="utf-8"), re.MULTILINE)


def sources() -> list[tuple[str, pathlib.Path]]:
    found = [(path.relative_to(CPP).parts[0], path) for path in CPP.rglob("*") if path.suffix in {".h", ".cpp"}]
    assert len(found) > 40
    return found


def test_every_folder_is_known() -> None:
    assert {folder for folder, _ in sources()} == set(MAY_USE)


def test_the_layers_are_in_order() -> None:
    """No folder may use a later one, so there are no cycles."""
    order = list(MAY_USE)
    for folder, used in MAY_USE.items():
        assert all(order.index(other) < order.index(folder) for other in used), folder


def test_the_documentation_has_these_arrows() -> None:
    """The last column of the table of folders; those of bindings and cli, which use most folders, are in words."""
    page = (CPP.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `cpp/(\w+)` \|.*\| ?([^|]*?) ?\|$", page, re.MULTILINE))
    assert rows.keys() == MAY_USE.keys()
    for folder in MAY_USE.keys() - {"bindings", "cli"}:
        assert set(filter(None, rows[folder].split(", "))) == MAY_USE[folder], folder


def test_every_file_says_what_it_is_for() -> None:
    """In its first line; a .cpp file with a header of the same name says it there."""
    root = CPP.parent
    paths = [path for folder in ("cpp", "tests", "bench") for path in (root / folder).rglob("*")]
    files = [path for path in paths if path.suffix in {".h", ".cpp"}]
    for path in files:
        if path.suffix == ".h" or not path.with_suffix(".h").exists():
            assert path.read_text(encoding="utf-8").startswith("// "), (
                f"{path.relative_to(root)} begins without a description"
            )


def test_folders_use_only_what_they_may() -> None:
    for folder, path in sources():
        for name in includes(path):
            used = name.split("/", 1)[0] if "/" in name else None
            if used in MAY_USE:
                assert used == folder or used in MAY_USE[folder], f"{path.relative_to(CPP)} includes {name}"


def test_few_folders_name_llama_cpp() -> None:
    for folder, path in sources():
        if folder not in {"graph", "llama", "chat", "quantize"}:
            assert not [name for name in includes(path) if UPSTREAM.fullmatch(name)], path
        if folder != "bindings":
            assert not [name for name in includes(path) if name.startswith("pybind11")], path


def test_only_platform_knows_the_operating_system() -> None:
    for folder, path in sources():
        if folder == "platform" or path.relative_to(CPP).as_posix() in KNOWS_THE_SYSTEM:
            continue
        assert not [name for name in includes(path) if SYSTEM_HEADER.fullmatch(name)], path
        assert not SYSTEM_MACRO.search(path.read_text(encoding="utf-8")), path
    for name in KNOWS_THE_SYSTEM:
        assert SYSTEM_MACRO.search((CPP / name).read_text(encoding="utf-8")), f"{name} needs no exception"


def test_platform_headers_are_the_same_on_every_system() -> None:
    for path in (CPP / "platform").glob("*.h"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in includes(path) if SYSTEM_HEADER.fullmatch(name)], path
        assert not re.search(
            r"\b(ssize_t|off_t|pid_t|mode_t|sockaddr\w*|pollfd|HANDLE|DWORD)\b|^#if", text, re.MULTILINE
        ), path


def test_kernels_of_one_instruction_set_share_no_inline_code_with_others() -> None:
    """The linker keeps one copy of an inline function, possibly the one compiled for AVX-512."""
    allowed = {"cstdint", "cstddef", "immintrin.h", "arm_neon.h", "base/cpu_features.h", "base/index.h"}
    allowed |= {"base/weight_types.h"}
    allowed |= {"weights/mxfp6/format.h", "weights/mxfp6/matmul.h", "weights/floats/matmul.h", "attention/attention.h"}
    allowed |= {"weights/blocks/format.h", "weights/blocks/grids.h"}
    allowed |= {"weights/blocks/tiles.h", "weights/blocks/matmul.h"}
    allowed |= {
        "weights/rounding.h",
        "weights/rounding_x86.h",
        "weights/mxfp6/quantize_x86.h",
        "weights/mxfp6/matmul_bands.h",
    }
    allowed |= {"sampling/row_loops.h", "sampling/exponential.h", "weights/mxfp6/calibration_loops.h"}
    # What follows goes into anonymous namespaces.
    allowed |= {"weights/mxfp6/matmul_ymm.h", "weights/floats/matmul_kernel.h"}
    allowed |= {"weights/blocks/matmul_kernel.h", "weights/blocks/matmul_x86.h", "weights/blocks/dot_products.h"}
    allowed |= {"weights/blocks/dot_products_vnni.h", "weights/blocks/dot_products_neon.h"}
    allowed |= {"weights/blocks/vectors_256.h", "weights/blocks/vectors_neon.h"}
    allowed |= {"attention/attention_int8.h", "attention/attention_x86.h", "attention/attention_ymm.h"}
    allowed |= {"sampling/row_loops_body.h", "weights/mxfp6/calibration_loops_body.h"}
    for _, path in sources():
        if ISA_FILE.fullmatch(path.name):
            assert set(includes(path)) <= allowed, path


def test_only_the_command_line_prints() -> None:
    printing = re.compile(r"std::c(out|err)\b|\b(printf|fprintf|puts|fputs)\(")
    for folder, path in sources():
        if folder != "cli":
            assert not printing.search(path.read_text(encoding="utf-8")), path


def test_everything_is_built() -> None:
    lists = {path.parent: path.read_text(encoding="utf-8") for path in CPP.rglob("CMakeLists.txt")}
    for _, path in sources():
        if path.suffix == ".cpp":
            parent = path.parent
            while parent not in lists or parent == CPP:
                assert parent != CPP, f"{path} has no CMakeLists.txt"
                parent = parent.parent
            assert path.relative_to(parent).as_posix() in lists[parent], path
