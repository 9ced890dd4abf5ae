"""How much the rounding of activations in matrix products changes a model's predictions, ours and llama.cpp's.

python -m bench.quality.product_accuracy [--files a.gguf b.gguf] [--types mxfp4 iq2_s ...] [--windows 2]
    [--tokens 384]

Quantized products round activations to 8 bits. Here every file is also decoded to F16 (bench_llama_quantize), whose
products do not round them; the divergence (KL, in nats per token) from its predictions is what the products lose.
With --types the files are first quantized to each of them, every matrix, by llama.cpp's quantizer.
Text: files of the running interpreter's standard library, the beginning of each window not scored. Build with
-DSPECDEC_PEERS=ON. Prints a markdown table.
"""

from __future__ import annotations

import pathlib
import subprocess
import tempfile

import numpy as np
import numpy.typing as npt
from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import LIBRARY

import specdec_native as sd

MODULES = ["argparse", "textwrap", "queue", "shlex", "heapq", "csv"]


def logits(program: pathlib.Path, model: pathlib.Path, threads: int, tokens: list[int]) -> npt.NDArray[np.float32]:
    ids = np.asarray(tokens, np.int32).tobytes()
    rows = subprocess.run([program, model, str(threads)], input=ids, stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(rows, np.float32).reshape(len(tokens), -1)


def divergence(reference: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """KL(reference || other) of every row, in nats."""

    def log_softmax(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        shifted = rows.astype(np.float64) - rows.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    p, q = log_softmax(reference), log_softmax(other)
    return np.asarray((np.exp(p) * (p - q)).sum(axis=1))


def row(
    file: pathlib.Path,
    decoded: pathlib.Path,
    windows: list[list[int]],
    programs: dict[str, pathlib.Path],
    threads: int,
) -> str:
    """Of the table: a file's divergence from the same weights decoded to F16."""
    found: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in programs}
    same: dict[str, list[npt.NDArray[np.bool_]]] = {name: [] for name in programs}
    for window in windows:
        reference = logits(programs["ours"], decoded, threads, window)[64:]
        for name, program in programs.items():
            rows = logits(program, file, threads, window)[64:]
            found[name].append(divergence(reference, rows))
            same[name].append(rows.argmax(axis=1) == reference.argmax(axis=1))
    means = {name: float(np.concatenate(kl).mean()) for name, kl in found.items()}
    cells = [
        f"{1e4 * means[name]:.2f} ({1e4 * np.quantile(np.concatenate(found[name]), 0.9):.2f}), "
        f"{100 * np.concatenate(same[name]).mean():.1f} %"
        for name in programs
    ]
    return f"| {file.stem} | " + " | ".join(cells) + f" | {means['ours'] / means['llama.cpp']:.2f} |"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--files", type=pathlib.Path, nargs="+", default=[FOLDER / f"{name}.gguf" for name in PAIR])
    parser.add_argument("--types", nargs="+", default=[], help="names of ggml's (nvfp4); default: as the files are")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=384, help="of a window; the first 64 are not scored")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    bench, library = arguments.build / "bench", LIBRARY
    programs = {"ours": bench / "bench_logits", "llama.cpp": bench / "bench_logits_stock"}
    scored = arguments.windows * (arguments.tokens - 64)
    print(
        f"{scored} tokens: mean KL from F32 activations, 1e-4 nats per token (90th percentile); same most "
        "likely token\n"
    )
    print("| file | " + " | ".join(programs) + " | ratio |\n|---|---|---|---|")
    for file in arguments.files:
        tokenizer = sd.Generator(str(file), n_ctx=256, n_threads=arguments.threads)
        texts = [(library / f"{name}.py").read_text() for name in MODULES[: arguments.windows]]
        windows = [tokenizer.tokenize(text)[: arguments.tokens] for text in texts]
        tokenizer.close()
        for type in arguments.types or [None]:
            with tempfile.TemporaryDirectory() as folder:
                quantized, decoded = file, pathlib.Path(folder, "f16.gguf")
                if type is not None:
                    quantized = pathlib.Path(folder, f"{file.stem.removesuffix('-f16')}-{type}.gguf")
                    subprocess.run([bench / "bench_llama_quantize", file, quantized, type], check=True)
                subprocess.run([bench / "bench_llama_quantize", quantized, decoded, "f16"], check=True)
                print(row(quantized, decoded, windows, programs, arguments.threads), flush=True)


if __name__ == "__main__":
    main()
