"""Quality loss by quantization: the bundled target in several types against its F16 original.

python -m bench.quality.quality [--specdec PATH] [--llama-quantize PATH] [--share 0.25] [--threads 1] [--models FOLDER]

Text: the middle `share` of the running interpreter's standard-library files that were held out of the target's
training (models/README.md). Calibration text: pieces of other files of the library. Q8_0 and Q6_K are made by
llama.cpp's own quantizer (bench_llama_quantize, -DSPECDEC_BENCH=ON); all are evaluated by `specdec perplexity`. Rows
"weights only" have the weights decoded to F32, so that activations are not rounded. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import json
import pathlib
import platform
import random
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gguf
import gguf.gguf_reader
import numpy as np
import numpy.typing as npt
from bench.common.paths import BUILD, TARGET
from bench.common.texts import HELD_OUT, LIBRARY, held_out_files
from gguf import GGMLQuantizationType as GgmlType

END_OF_TEXT = "<|endoftext|>"
F32Array = npt.NDArray[np.float32]


# ---- Text


def held_out_text(share: float) -> str:
    """The middle `share` of every held-out file that this interpreter has."""
    parts = (text[int(len(text) * (1 - share) / 2) : int(len(text) * (1 + share) / 2)] for text in held_out_files())
    return END_OF_TEXT.join(parts)


def calibration_text(size: int, piece: int = 6000) -> str:
    """About `size` characters: one piece each of files that the target was trained on, in a fixed random order."""
    names = sorted(path.relative_to(LIBRARY).as_posix() for path in LIBRARY.rglob("*.py"))
    skipped = ("site-packages", "encodings/", "pydoc_data", "bad", "lib2to3/tests/data", "idlelib/idle_test/example")
    chance = random.Random(1)
    chance.shuffle(names)
    pieces: list[str] = []
    for name in names:
        trained = int(hashlib.sha1(name.encode()).hexdigest(), 16) % 40 != 0  # models/train/data.py
        if not trained or name[:-3] in HELD_OUT or any(part in name for part in skipped):
            continue
        try:
            text = (LIBRARY / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if len(text) < 2000:
            continue
        start = chance.randrange(max(1, len(text) - piece))
        pieces.append(text[start : start + piece])
        if sum(map(len, pieces)) >= size:
            break
    return END_OF_TEXT.join(pieces)


# ---- MXFP6 files in Python (cpp/weights/mxfp6/format.h)

E2M3 = 96


def teach_gguf() -> None:
    """Adds the type to the gguf package's reader."""
    names = {member.name: member.value for member in GgmlType} | {"MXFP6_E2M3": E2M3}
    setattr(gguf.gguf_reader, "GGMLQuantizationType", enum.IntEnum("GgmlType", names))  # noqa: B010
    gguf.constants.GGML_QUANT_SIZES[E2M3] = (32, 25)  # type: ignore[index]


def code_values() -> F32Array:
    codes = np.arange(64)
    exponent, mantissa = (codes & 31) >> 3, codes & 7
    magnitude = np.where(exponent == 0, mantissa, (mantissa + 8) << np.maximum(exponent - 1, 0)) / 8
    values: F32Array = np.where(codes & 32, -magnitude, magnitude).astype(np.float32)
    return values


def decode_tiles(data: npt.NDArray[np.uint8], rows: int, cols: int) -> F32Array:
    tiles = np.frombuffer(data.tobytes(), np.uint8).reshape(rows // 16, cols // 32, 400)
    planes = tiles[..., :384].reshape(rows // 16, cols // 32, 2, 3, 16, 4)  # half, plane, row, i
    top = planes >> 6
    fourth = top[:, :, :, 0] | top[:, :, :, 1] << 2 | top[:, :, :, 2] << 4
    groups = np.concatenate([planes & 63, fourth[:, :, :, None]], axis=3)  # band, block, half, group, row, i
    codes = groups.transpose(0, 4, 1, 2, 3, 5).reshape(rows, cols)
    exponents = tiles[..., 384:].transpose(0, 2, 1).reshape(rows, cols // 32).astype(np.int32) - 127
    weights: F32Array = np.ldexp(code_values()[codes], np.repeat(exponents, 32, axis=1)).astype(np.float32)
    return weights


def decoded(tensor: gguf.ReaderTensor) -> F32Array:
    type = int(tensor.tensor_type)
    if type == E2M3:
        return decode_tiles(tensor.data, int(tensor.shape[1]), int(tensor.shape[0]))
    return gguf.quants.dequantize(tensor.data, GgmlType(type)).astype(np.float32)


def decode_file(source: pathlib.Path, result: pathlib.Path) -> None:
    """The same model with all tensors in F32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(result, reader.fields["general.architecture"].contents())
    dropped = ("GGUF.", "general.architecture", "general.file_type", "mxfp6.")
    for name, entry in reader.fields.items():
        if not name.startswith(dropped):
            writer.add_key_value(
                name, entry.contents(), entry.types[0], entry.types[-1] if len(entry.types) > 1 else None
            )
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, decoded(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def squared_error(original: pathlib.Path, path: pathlib.Path) -> float:
    """The squared error of all matrices, relative to the sum of their squares."""
    weights = {tensor.name: decoded(tensor) for tensor in gguf.GGUFReader(original).tensors if len(tensor.shape) > 1}
    tensors = [tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name in weights]
    errors = sum(float(np.square(weights[t.name] - decoded(t), dtype=np.float64).sum()) for t in tensors)
    return errors / sum(float(np.square(w, dtype=np.float64).sum()) for w in weights.values())


def bits_per_weight(path: pathlib.Path) -> tuple[int, float]:
    tensors = gguf.GGUFReader(path).tensors
    size = sum(int(tensor.n_bytes) for tensor in tensors)
    return size, 8 * size / sum(int(tensor.n_elements) for tensor in tensors)


# ---- The table


@dataclass(frozen=True)
class Bench:
    specdec: pathlib.Path
    llama_quantize: pathlib.Path
    original: pathlib.Path
    folder: pathlib.Path
    threads: int

    def stock(self, name: str) -> pathlib.Path:
        result = self.folder / f"{name}.gguf"
        subprocess.run([self.llama_quantize, self.original, result, name], check=True)
        return result

    def mxfp6(self, name: str, *options: str) -> pathlib.Path:
        result = self.folder / f"{name}.gguf"
        command = [str(self.specdec), "quantize", "--force", "--json", "--threads", str(self.threads), *options]
        command += [str(self.original), str(result)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return result

    def weights_only(self, path: pathlib.Path) -> pathlib.Path:
        result = path.with_suffix(".f32.gguf")
        decode_file(path, result)
        return result

    def models(self, calibration: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
        yield "F16", self.original
        yield "Q8_0", self.stock("q8_0")
        made = {
            "Q6_K": self.stock("q6_k"),
            "MXFP6 E2M3 ocp": self.mxfp6("ocp", "--scale", "ocp"),
            "MXFP6 E2M3 mse": self.mxfp6("mse"),
            "MXFP6 E2M3 calibrated": self.mxfp6("calibrated", "--calibrate", str(calibration)),
        }
        yield from made.items()
        for name in ("Q6_K", "MXFP6 E2M3 ocp", "MXFP6 E2M3 mse", "MXFP6 E2M3 calibrated"):
            yield f"{name}, weights only", self.weights_only(made[name])

    def evaluate(self, model: pathlib.Path, text: pathlib.Path) -> dict[str, Any]:
        command = [str(self.specdec), "perplexity", "--json", "-t", str(self.threads), "-f", str(text)]
        command += ["--against", str(self.original), str(model)]
        result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return result

    def row(self, name: str, model: pathlib.Path, text: pathlib.Path) -> str:
        result = self.evaluate(model, text)
        size, bits = bits_per_weight(model)
        stored = "" if "only" in name else f"{size} | {bits:.2f}"
        kl, top = result["kl_divergence"], result["same_top_token"]
        cells = [
            name,
            stored or " | ",
            f"{result['perplexity']['value']:.3f}",
            f"{kl['mean']:.5f} ± {kl['standard_error']:.5f}",
            f"{kl['median']:.5f}",
            f"{kl['percentile_99']:.4f}",
            f"{100 * top['value']:.2f} %",
            f"{1e4 * squared_error(self.original, model):.3f}",
        ]
        return f"| {' | '.join(cells)} |"


def binary(name: str) -> pathlib.Path:
    found = [path for path in (BUILD).rglob(name) if path.is_file()]
    return found[0] if found else pathlib.Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specdec", type=pathlib.Path, default=binary("specdec"))
    parser.add_argument("--llama-quantize", type=pathlib.Path, default=binary("bench_llama_quantize"))
    parser.add_argument("--model", type=pathlib.Path, default=TARGET)
    parser.add_argument("--share", type=float, default=0.25, help="of every held-out file")
    parser.add_argument("--calibration", type=int, default=250_000, help="characters of calibration text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=pathlib.Path, help="folder to keep the models in")
    options = parser.parse_args()
    teach_gguf()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        text, calibration = folder / "held-out.txt", folder / "calibration.txt"
        text.write_text(held_out_text(options.share), encoding="utf-8")
        calibration.write_text(calibration_text(options.calibration), encoding="utf-8")
        bench = Bench(options.specdec, options.llama_quantize, options.model, folder, options.threads)
        print(f"Python {platform.python_version()}'s library; held-out text {text.stat().st_size} bytes, ", end="")
        print(f"calibration text {calibration.stat().st_size} bytes.\n")
        columns = (
            "bytes | bits | perplexity | mean KL, nats | median KL | 99 % KL | same top | squared weight error, 1e-4"
        )
        print(f"| weights | {columns} |\n|---|{'---|' * (columns.count('|') + 1)}", flush=True)
        for name, model in bench.models(calibration):
            print(bench.row(name, model, text), flush=True)


if __name__ == "__main__":
    main()
