"""How near a pass over one token of a mixture of experts comes to the read bandwidth.

python -m bench.mixture.bandwidth [--threads 2] [--rounds 15] [--folder FOLDER]

The model of bench/mixture/mixture.py: 8 of 64 experts, Q8_0 repacked at load. A pass reads every matrix except the
embeddings, and 8 of 64 experts. Passes (bench_passes) take turns with measurements of the read bandwidth
(bench_matmul). Prints the medians.
"""

from __future__ import annotations

import pathlib
import re
import statistics
import subprocess

import gguf
from bench.common.paths import BUILD
from bench.common.random_models import model_file, parser
from bench.mixture.mixture import SHAPE
from bench.passes.passes import Passes


def bytes_of_pass(model: pathlib.Path) -> float:
    total = 0.0
    for tensor in gguf.GGUFReader(model).tensors:
        if not tensor.name.startswith("token_embd"):
            share = SHAPE.experts_used / SHAPE.experts if "_exps" in tensor.name else 1.0
            total += share * int(tensor.n_bytes)
    return total


def read_bandwidth(threads: int) -> float:
    """GB/s."""
    command = [BUILD / "bench" / "bench_matmul", "--type", "Q8_0", "--rounds", 3, "--threads", threads, "--n", 1]
    out = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    found = re.search(r"read ([\d.]+) GB/s", out)
    assert found, out
    return float(found[1])


def main() -> None:
    options = parser(__doc__).parse_args()
    model = model_file(options.folder / "mixture-q8_0.gguf", "qwen3moe", SHAPE)
    passes = Passes(BUILD / "bench" / "bench_passes", model, options.threads, 1024, "f16", {}, "repack")
    seconds, bandwidths = [], []
    for _ in range(options.rounds):
        seconds.append(statistics.median(passes.milliseconds(1, 128) for _ in range(9)) / 1e3)
        bandwidths.append(read_bandwidth(options.threads))
    passes.close()
    needed, pass_, limit = bytes_of_pass(model) / 1e9, statistics.median(seconds), statistics.median(bandwidths)
    print("| bytes of a pass, GB | a pass, ms | GB/s | read bandwidth, GB/s | share |\n|---|---|---|---|---|")
    print(f"| {needed:.3f} | {1e3 * pass_:.2f} | {needed / pass_:.1f} | {limit:.1f} | {needed / pass_ / limit:.2f} |")


if __name__ == "__main__":
    main()
