"""Draws the results of `specdec bench --json`: `specdec bench --json | python3 -m specdec_native.plot FILE.png`.

Left: tokens per second of each mode. Right: where the time of a token goes (drafts, target pass, sampling, rest),
predicted from passes timed alone and measured, with a draft and without.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

PARTS = {"draft": "C2", "target": "C0", "sampling": "C1", "rest": "0.6"}


def speed_axes(axes: Any, modes: list[dict[str, Any]]) -> None:
    speeds = [mode["tokens_per_second"] for mode in modes]
    medians = [speed["median"] for speed in speeds]
    spread = [
        [speed["median"] - speed["low"] for speed in speeds],
        [speed["high"] - speed["median"] for speed in speeds],
    ]
    colors = ["C2" if mode["speculation"] else "C0" for mode in modes]
    places = range(len(modes))
    axes.barh(places, medians, xerr=spread, color=colors, ecolor="0.3", capsize=3)
    axes.set_yticks(places, [mode["name"] for mode in modes])
    axes.invert_yaxis()
    axes.set_xlim(right=1.4 * max(speed["high"] for speed in speeds))
    for place, mode in zip(places, modes, strict=True):
        label = f"  {mode['speedup']:.2f} times"
        if mode["speculation"]:
            label += f", {mode['stats']['acceptance_rate']:.0%} accepted"
        axes.text(mode["tokens_per_second"]["high"], place, label, va="center")
    axes.set_xlabel("tokens per second")


def cycle_axes(axes: Any, modes: list[dict[str, Any]]) -> None:
    """Milliseconds per output token: the time of a cycle over its tokens."""
    rows = []
    for mode in modes:
        prediction = mode["prediction"]
        if prediction is None:
            continue
        tokens = mode["stats"]["tokens_per_target_call"]
        rows += [
            (f"{prediction['over']}, predicted", prediction["predicted_cycle_without"], 1.0),
            (f"{prediction['over']}, measured", prediction["measured_cycle_without"], 1.0),
            (f"{mode['name']}, predicted", prediction["predicted_cycle"], tokens),
            (f"{mode['name']}, measured", prediction["measured_cycle"], tokens),
        ]
    left = [0.0] * len(rows)
    for part, color in PARTS.items():
        widths = [1e3 * cycle[part] / tokens for _, cycle, tokens in rows]
        axes.barh(range(len(rows)), widths, left=left, color=color, label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per token")
    axes.legend()


def draw(result: dict[str, Any], path: str) -> None:
    from matplotlib.figure import Figure  # without pyplot: no display is needed

    predicted = sum(mode["prediction"] is not None for mode in result["modes"])
    height = 1.5 + max(0.5 * len(result["modes"]), 1.4 * predicted)
    figure = Figure(figsize=(12, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    speed_axes(left, result["modes"])
    cycle_axes(right, result["modes"])
    figure.savefig(path, format="png", dpi=150)


def fail(message: str) -> int:
    print(f"specdec_native.plot: {message}", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m specdec_native.plot", description="Draw the JSON of `specdec bench`."
    )
    parser.add_argument("file", help="the PNG to write")
    parser.add_argument("--check", action="store_true", help="only check whether a plot can be drawn there")
    arguments = parser.parse_args()
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return fail('matplotlib is missing; pip install "specdec_native[plot]"')
    folder = os.path.dirname(arguments.file) or "."
    if not os.access(arguments.file if os.path.exists(arguments.file) else folder, os.W_OK) or os.path.isdir(
        arguments.file
    ):
        return fail(f"{arguments.file}: cannot be written")
    if arguments.check:
        return 0
    try:
        draw(json.load(sys.stdin), arguments.file)
    except OSError as error:
        return fail(f"{arguments.file}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
