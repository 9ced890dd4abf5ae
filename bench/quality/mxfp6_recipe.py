"""Which tensors cause the loss when a real model becomes MXFP6: the divergence with some of them kept.

python -m bench.quality.mxfp6_recipe [--files a.gguf b.gguf] [--chunks 4]

Each file is requantized (`specdec quantize --allow-requantize`), once as a whole and once with each group of tensors
kept in the file's type, and compared with the file itself (`specdec perplexity --against`) on held-out files of the
standard library (quality.py). Prints a markdown table.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import tempfile

from bench.common.paths import BUILD
from bench.common.real_models import FOLDER, PAIR
from bench.quality.quality import held_out_text

GROUPS = {
    "nothing": "",
    "the embedding (also the output)": "^(token_embd|output)[.]",
    "attn_v": "attn_v",
    "attn_q, attn_k": "attn_[qk][.]",
    "attn_output": "attn_output",
    "ffn_down": "ffn_down",
    "ffn_gate, ffn_up": "ffn_(gate|up)",
}


def output_of(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=pathlib.Path, nargs="+", default=[FOLDER / f"{name}.gguf" for name in PAIR])
    parser.add_argument(
        "--chunks", type=int, default=4, help="windows of 512 tokens, of which the second half is scored"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--specdec", type=pathlib.Path, default=BUILD / "specdec")
    arguments = parser.parse_args()
    print("| file | kept | bytes | mean KL, nats | 99 % KL | same top |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        text, out = pathlib.Path(folder, "text.txt"), pathlib.Path(folder, "out.gguf")
        text.write_text(held_out_text(0.25), encoding="utf-8")
        for file in arguments.files:
            for name in arguments.groups:
                keep = ["--keep", GROUPS[name]] if GROUPS[name] else []
                output_of(
                    arguments.specdec,
                    "quantize",
                    "--allow-requantize",
                    "--force",
                    "-t",
                    arguments.threads,
                    *keep,
                    file,
                    out,
                )
                options = [
                    "-f",
                    text,
                    "--against",
                    file,
                    "--chunks",
                    arguments.chunks,
                    "-t",
                    arguments.threads,
                    "--json",
                ]
                found = json.loads(output_of(arguments.specdec, "perplexity", out, *options))
                loss = found["kl_divergence"]
                mean, largest = f"{loss['mean']:.5f} ± {loss['standard_error']:.5f}", f"{loss['percentile_99']:.4f}"
                same = f"{100 * found['same_top_token']['value']:.2f} %"
                print(f"| {file.stem} | {name} | {out.stat().st_size} | {mean} | {largest} | {same} |", flush=True)


if __name__ == "__main__":
    main()
