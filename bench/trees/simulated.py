"""Chains and trees of drafts side by side in simulated time: tokens per second and tokens a pass.

python -m bench.trees.simulated [--worlds disk 14b memory] [--prompts NAME ...] [--tokens 72] [--seeds 1]

The real pair as downloaded (bench/common/real_models.py), or --target and --draft, decodes real prompts; what passes
cost is given (bench/trees/simulated.cpp has the worlds), so that rows compare rules and not a machine's moods. --code:
beginnings of functions instead, for the bundled models. Needs bench_trees (cmake --preset default -DSPECDEC_BENCH=ON).
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import tempfile

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, CODE_PROMPTS, chat

WAYS = ["chains", "16", "auto"]
Results = dict[tuple[str, float], dict[tuple[str, str], tuple[float, float]]]  # [world, way]: tokens/s, tokens a pass


def of_all(runs: list[tuple[float, float]]) -> tuple[float, float]:
    """Rates of runs that make the same number of tokens."""
    rates, per_pass = zip(*runs, strict=True)
    return statistics.harmonic_mean(rates), statistics.harmonic_mean(per_pass)


def report(results: Results, worlds: list[str]) -> None:
    cells = [(world, way) for world in worlds for way in WAYS]
    print(f"| prompt, temperature | {' | '.join(f'{world}: {way}' for world, way in cells)} |")
    print(f"|---|{'---|' * len(cells)}")
    for (name, temperature), row in results.items():
        texts = [f"{row[cell][0]:.1f} ({row[cell][1]:.1f})" for cell in cells]
        print(f"| {name}, {temperature:g} | {' | '.join(texts)} |")
    print("\nTokens per simulated second (tokens a pass). Compared with chains:\n")
    for world in worlds:
        for way in WAYS[1:]:
            for temperature in sorted({temperature for _, temperature in results}):
                rows = [row for (_, at), row in results.items() if at == temperature]
                gains = [row[world, way][0] / row[world, "chains"][0] for row in rows]
                mean, spread = statistics.geometric_mean(gains), f"{min(gains):.2f} to {max(gains):.2f}"
                print(f"- {world}, {way}, temperature {temperature:g}: {mean:.2f} in the mean, {spread}")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=FOLDER / f"{PAIR[0]}.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=FOLDER / f"{PAIR[1]}.gguf")
    parser.add_argument("--worlds", nargs="+", default=["disk", "14b", "memory"])
    parser.add_argument("--prompts", nargs="+", default=list(CHAT_PROMPTS), choices=sorted(CHAT_PROMPTS))
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0, 0.8])
    parser.add_argument(
        "--verification",
        choices=["block", "token", "invariant"],
        default="block",
        help="at temperatures above 0; block: as without a seed, invariant: as with one",
    )
    parser.add_argument("--code", action="store_true")
    parser.add_argument(
        "--copies",
        choices=["none", "text", "repeat"],
        default="text",
        help="none: drafts of the model alone; repeat: each prompt a second time, measured then",
    )
    parser.add_argument(
        "--knowledge",
        choices=["none", "earlier"],
        default="none",
        help="what each prompt begins with: nothing, or what all prompts taught, which ran before with another seed",
    )
    parser.add_argument("--tokens", type=int, default=72)
    parser.add_argument("--seeds", type=int, default=1, help="runs at a temperature; rates are of all of them")
    arguments = parser.parse_args()
    program = arguments.build / "bench" / "bench_trees"
    prompts = {name: chat(CHAT_PROMPTS[name]) for name in arguments.prompts}
    if arguments.code:
        prompts = {f"function-{number}": text for number, text in enumerate(CODE_PROMPTS, 1)}
    results: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {str(pathlib.Path(folder) / name): name for name in prompts}
        for path, name in files.items():
            pathlib.Path(path).write_text(prompts[name])
        for temperature in arguments.temperatures:
            runs: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {name: {} for name in prompts}
            for seed in range(1, 1 + (arguments.seeds if temperature > 0 else 1)):
                command = [program, arguments.target, arguments.draft, arguments.tokens, temperature, seed]
                command += [
                    arguments.verification,
                    arguments.copies,
                    arguments.knowledge,
                    ",".join(arguments.worlds),
                    *files,
                ]
                out = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout
                for line in out.splitlines():
                    path, world, way, per_pass, rate = line.rsplit(maxsplit=4)
                    runs[files[path]].setdefault((world, way), []).append((float(rate), float(per_pass)))
            for name, of_prompt in runs.items():
                results[name, temperature] = {cell: of_all(of_cell) for cell, of_cell in of_prompt.items()}
    report(results, arguments.worlds)


if __name__ == "__main__":
    main()
