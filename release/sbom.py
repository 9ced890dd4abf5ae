"""The bill of materials of a release, CycloneDX 1.6: what a wheel or the binary holds of others, with versions and
licences."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def found(file: pathlib.Path, pattern: str) -> str:
    """The groups of the pattern's first match in a file, with dots between."""
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None, f"{file} has no {pattern}"
    return ".".join(match.groups())


def project_version() -> str:
    return found(ROOT / "pyproject.toml", r'^version = "([^"]+)"')


def source(name: str) -> pathlib.Path:
    """The folder of the pinned llama.cpp or xgrammar, downloaded if it is not in the cache."""
    command = [sys.executable, str(ROOT / "third_party" / name / "fetch.py"), str(ROOT / ".cache")]
    return pathlib.Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def components() -> list[tuple[str, str, str, str]]:
    """Name, version, SPDX expression of the licence and address; one for each address in THIRD_PARTY_LICENSES."""
    vendor = source("llama.cpp") / "vendor"
    llama_cpp = found(ROOT / "third_party" / "llama.cpp" / "fetch.py", r'^COMMIT = "(\w+)')
    xgrammar = found(ROOT / "third_party" / "xgrammar" / "fetch.py", r'^PACKAGE, VERSION = "xgrammar", "([^"]+)"')
    json_version = r"NLOHMANN_JSON_VERSION_MAJOR (\d+)[\s\S]*?_MINOR (\d+)[\s\S]*?_PATCH (\d+)"
    httplib = found(vendor / "cpp-httplib" / "httplib.h", r'CPPHTTPLIB_VERSION "([^"]+)"')
    stb_image = found(vendor / "stb" / "stb_image.h", r"stb_image - v([\d.]+)")
    pybind11 = found(ROOT / "requirements" / "build.txt", r"^pybind11==(\S+)")
    zig = found(ROOT / "requirements" / "wheels.txt", r"^ziglang==(\S+)")
    return [
        ("llama.cpp and ggml, patched", llama_cpp, "MIT", "https://github.com/ggml-org/llama.cpp"),
        (
            "nlohmann/json",
            found(vendor / "nlohmann" / "json.hpp", json_version),
            "MIT",
            "https://github.com/nlohmann/json",
        ),
        ("cpp-httplib", httplib, "MIT", "https://github.com/yhirose/cpp-httplib"),
        ("stb_image", stb_image, "MIT", "https://github.com/nothings/stb"),
        ("xgrammar, patched", xgrammar, "Apache-2.0", "https://github.com/mlc-ai/xgrammar"),
        ("dlpack (headers, in xgrammar)", xgrammar, "Apache-2.0", "https://github.com/dmlc/dlpack"),
        ("picojson (in xgrammar)", xgrammar, "BSD-2-Clause", "https://github.com/kazuho/picojson"),
        ("pybind11", pybind11, "BSD-3-Clause", "https://github.com/pybind/pybind11"),
        (
            "LLVM's libc++ and others (of zig, in cross-compiled wheels)",
            zig,
            "Apache-2.0 WITH LLVM-exception",
            "https://llvm.org",
        ),
        (
            "bundled models, trained on CPython's library",
            project_version(),
            "MIT AND PSF-2.0",
            "https://www.python.org",
        ),
    ]


def bill() -> dict[str, object]:
    listed = [
        {
            "type": "machine-learning-model" if "models" in name else "library",
            "bom-ref": name,
            "name": name,
            "version": version,
            "licenses": [{"expression": licence}],
            "externalReferences": [{"type": "website", "url": address}],
        }
        for name, version, licence, address in components()
    ]
    version = project_version()
    project = {
        "type": "application",
        "bom-ref": "specdec_native",
        "name": "specdec_native",
        "version": version,
        "purl": f"pkg:pypi/specdec-native@{version}",
        "licenses": [{"expression": "MIT"}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": project},
        "components": listed,
        "dependencies": [{"ref": "specdec_native", "dependsOn": [component["bom-ref"] for component in listed]}],
    }


def write(path: pathlib.Path) -> None:
    path.write_text(json.dumps(bill(), indent=2) + "\n", encoding="utf-8")
