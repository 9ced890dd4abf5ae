"""Draws the results of `specdec bench --json`: `specdec bench --json | python3 -m specdec_native.plot FILE.png`.

Shows the tokens per second of each mode. With --times, shows instead where the time of a token goes (drafts, target
pass, sampling, rest): predicted from passes timed alone, and measured, with and without a draft.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ._core import Error, OutputFile

PARTS = {"draft": "C2", "target": "C0", "sampling": "C1", "rest": "0.6"}
WITH_DRAFT, WITHOUT = "C2", "0.7"


def conditions(result: dict[str, Any]) -> str:
    threads, prompts = result["threads"], result["prompts"]
    texts = [f"{prompts} prompt{'s' * (prompts != 1)}", f"{threads} thread{'s' * (threads != 1)}"]
    return ", ".join([*texts, f"temperature {result['temperature']:g}"])


def fit_labels(axes: Any, labels: list[Any]) -> None:
    """Widens the axes until every label is inside."""
    renderer = axes.figure.canvas.get_renderer()
    for _ in range(5):  # the labels keep their width, so each step has less to do
        axes.figure.draw(renderer)
        ends = [label.get_window_extent(renderer).x1 for label in labels]
        right = axes.transData.inverted().transform((max(ends), 0.0))[0]
        if right <= axes.get_xlim()[1]:
            return
        axes.set_xlim(right=1.02 * right)


def draw_speeds(axes: Any, result: dict[str, Any]) -> None:
    modes = result["modes"]
    speeds = [mode["tokens_per_second"] for mode in modes]
    spread = [
        [speed["median"] - speed["low"] for speed in speeds],
        [speed["high"] - speed["median"] for speed in speeds],
    ]
    colors = [WITH_DRAFT if mode["speculation"] else WITHOUT for mode in modes]
    places = range(len(modes))
    axes.barh(places, [speed["median"] for speed in speeds], xerr=spread, color=colors, ecolor="0.3", capsize=3)
    axes.set_yticks(places, [mode["name"] for mode in modes])
    axes.invert_yaxis()
    labels = []
    for place, (mode, speed) in enumerate(zip(modes, speeds, strict=True)):
        text = f"{speed['median']:.1f}" + (f" ({mode['speedup']:.2f} times)" if place > 0 else "")
        label = axes.annotate(text, (speed["high"], place), (6, 0), textcoords="offset points", va="center")
        labels.append(label)
    axes.set_xlabel("tokens per second")
    axes.set_xlim(left=0)
    axes.set_title(result["verdict"], loc="left")
    fit_labels(axes, labels)


def draw_times(axes: Any, result: dict[str, Any]) -> None:
    """Draws milliseconds per output token: the time of a cycle divided by its tokens."""
    rows = []
    for mode in result["modes"]:
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
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=len(PARTS), frameon=False)
    axes.set_title("Where the time of a token goes", loc="left")


def figure_of(result: dict[str, Any], times: bool = False) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure  # without pyplot: no display is needed

    predicted = sum(mode["prediction"] is not None for mode in result["modes"])
    rows = 4 * predicted if times else len(result["modes"]) + result["verdict"].count("\n")
    figure = Figure(figsize=(8, 1.4 + 0.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    (draw_times if times else draw_speeds)(axes, result)
    figure.supxlabel(conditions(result), fontsize="small", color="0.4", x=1.0, ha="right")
    return figure


def fail(message: str) -> int:
    print(f"specdec_native.plot: {message}", file=sys.stderr)
    return 1


class _Checked(Exception):
    """Ends a check: nothing is written."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m specdec_native.plot", description="Draw the JSON of `specdec bench`."
    )
    parser.add_argument("file", help="the PNG to write")
    parser.add_argument("--times", action="store_true", help="where the time of a token goes, instead of speeds")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--check", action="store_true", help="only check whether a plot can be drawn there")
    arguments = parser.parse_args()
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return fail('matplotlib is missing; pip install "specdec_native[plot]"')
    try:
        with OutputFile(arguments.file, arguments.force, "use --force to replace it") as output:
            if arguments.check:
                raise _Checked
            figure = figure_of(json.load(sys.stdin), arguments.times)
            figure.savefig(output.partial, format="png", dpi=150)
    except _Checked:
        return 0
    except Error as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{arguments.file}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
