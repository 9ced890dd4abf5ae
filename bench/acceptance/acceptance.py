"""Acceptance rate by strength of perturbation.

python -m bench.acceptance.acceptance [--strengths 0.1 0.2] [--k 5] [--seeds 4]

The bundled draft proposes for its own perturbed copy (models/widen.py). Widening keeps the function, so this is the
rate of any wide target made with that strength. Temperature 0.8, default transforms, token verification. Without
--strengths it searches the strengths for RATES: measures GRID, interpolates linearly, and measures there. Prints a
markdown table.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from bench.common.paths import DRAFT, ROOT
from bench.common.texts import CODE_PROMPTS

import specdec_native as sd

RATES = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
GRID = [0.0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.12]


class Measurement:
    def __init__(self, folder: pathlib.Path, k: int, seeds: int, tokens: int) -> None:
        self.target, self.k, self.seeds, self.tokens = folder / "target.gguf", k, seeds, tokens

    def rate(self, strength: float) -> float:
        """Accepted / drafted over all prompts and seeds."""
        command = [ROOT / "models" / "widen.py", "same", self.target, "--perturb", str(strength), "--force"]
        subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
        gen = sd.Generator(self.target, DRAFT, num_draft_tokens=self.k)
        accepted = drafted = 0
        for prompt in CODE_PROMPTS:
            for seed in range(self.seeds):
                completion = gen.generate(
                    prompt, max_tokens=self.tokens, temperature=0.8, seed=seed, verification="token"
                )
                stats = completion.stats
                accepted, drafted = accepted + stats.accepted, drafted + stats.drafted
        return accepted / drafted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strengths", type=float, nargs="+")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measurement = Measurement(pathlib.Path(folder), arguments.k, arguments.seeds, arguments.tokens)
        strengths = arguments.strengths
        if strengths is None:
            measured = [measurement.rate(strength) for strength in GRID]
            strengths = [float(f"{s:.2g}") for s in np.interp(RATES, measured[::-1], GRID[::-1])]
        print("| strength | acceptance rate |\n|---|---|")
        for strength in strengths:
            print(f"| {strength:.4g} | {measurement.rate(strength):.3f} |", flush=True)


if __name__ == "__main__":
    main()
