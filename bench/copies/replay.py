"""Decodes texts whose answers are known in simulated time (replay.cpp, -DSPECDEC_BENCH=ON)."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Iterable, Sequence

from bench.common.paths import BUILD


def replay(tasks: Iterable[Iterable[Sequence[int]]]) -> None:
    """Prints the table of the tasks: token ids of a prompt, its answer and, if there is one, a prediction of that."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, task in enumerate(tasks):
            paths.append(pathlib.Path(folder) / f"{number}.txt")
            paths[-1].write_text("".join(" ".join(map(str, tokens)) + "\n" for tokens in task))
        subprocess.run([BUILD / "bench" / "bench_replay", *paths], check=True)
