"""llama.cpp's own hand-made files (tests/test-gguf.cpp of the pinned source) through our reader.

    python tests/gguf/check_llama_cpp_files.py [--seeds 20]      (make gguf-check)

Downloads the pinned source package, compiles the part that writes the files, and runs `specdec info` on each. A bad
file must be an error, a sound one must be read, unless DIFFERENCES says why not.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "third_party" / "llama.cpp"))
import fetch  # noqa: E402

BUILD = ROOT / "build" / "default"
# Files that we judge otherwise than llama.cpp, with the reason.
DIFFERENCES = {
    "TENSORS_SUCCESS": "a header without the data: rejected, as a download that ended early is",
    "TENSORS_CUSTOM_ALIGN": "likewise",
    "TENSORS_ZERO_DIM": "no operation of a model takes an empty tensor: rejected",
}
EITHER = "DATA_NOT_ENOUGH_DATA"  # the last byte is missing: read where that is padding, which nothing reads


def compile_writer(folder: pathlib.Path) -> pathlib.Path:
    fetch.unpack(fetch.download(folder), folder, ("ggml", "tests"), ())
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    (library,) = {
        match for match in re.findall(r"\S+libggml-base\.a", (BUILD / "build.ninja").read_text()) if match[0] == "/"
    }
    libraries = [
        str(pathlib.Path(library).with_name(f"lib{name}.a")) for name in ("ggml", "ggml-cpu", "ggml-rpc", "ggml-base")
    ]
    compiler = next(word for word in commands[0]["command"].split() if not word.endswith("ccache"))
    program = folder / "write_files"
    source = pathlib.Path(__file__).with_name("write_llama_cpp_files.cpp")
    command = [
        compiler,
        "-std=c++17",
        "-w",
        f"-I{folder / 'tests'}",
        f"-I{folder / 'ggml' / 'include'}",
        str(source),
        *libraries,
    ]
    subprocess.run([*command, "-lpthread", "-ldl", "-lm", "-o", str(program)], check=True)
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    outcomes: collections.Counter[str] = collections.Counter()
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        writer = compile_writer(folder)
        for seed in range(options.seeds):
            subprocess.run([writer, folder, str(seed)], check=True, stderr=subprocess.DEVNULL)
            for path in sorted(folder.glob("*.gguf")):
                name, kind, _ = path.name.split(".")
                result = subprocess.run([BUILD / "specdec", "info", path], capture_output=True, text=True, timeout=60)
                expected = int((kind == "bad") != (name in DIFFERENCES))
                what = f"{kind} but for padding" if name == EITHER and result.returncode == 0 else kind
                outcomes[f"{what} {'read' if result.returncode == 0 else 'rejected'}"] += 1
                if result.returncode != expected and not (name == EITHER and result.returncode == 0):
                    wrong.append(f"{name} ({kind}, seed {seed}): exit code {result.returncode} {result.stderr.strip()}")
                path.unlink()
    print("\n".join(wrong))
    print(
        f"{sum(outcomes.values())} files:",
        ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())),
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
