"""A recording of `specdec race` as docs/race.svg.

python -m bench.race.record_race [--runs 5] [race's own options]

Runs the real binary at a terminal of its own several times and keeps the run whose speedup is the median. The picture
is the last frame; each piece of text stays hidden until the moment in the recording when it appeared, where the
viewer animates SVG.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import time
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.common.paths import BUILD, ROOT
from tests.cli.terminal import Terminal

COLUMNS, ROWS = 102, 40
CELL_WIDTH, LINE_HEIGHT, MARGIN, TITLE = 7.8, 17.0, 14.0, 30.0
FRAME = re.compile(r"\x1b\[H(.*?)\x1b\[K\x1b\[J", re.DOTALL)
STYLES = {"0": "", "1": "bold", "2": "faint", "31": "red", "32": "green", "36": "cyan"}  # what columns.cpp writes

Cell = tuple[str, str]  # a character and its style
Screen = list[list[Cell]]


@dataclass
class Recording:
    frames: list[tuple[float, Screen]]  # seconds since the first one
    result: str  # the last line: who wins

    @property
    def speedup(self) -> float:
        found = re.search(r"([\d.]+) times", self.result)
        return float(found[1]) if found else 1.0


def parse(frame: str) -> Screen:
    screen = []
    for line in re.split(r"\x1b\[K\r+\n", frame):
        style, cells = "", []
        for code, character in re.findall(r"\x1b\[(\d+)m|(.)", line):
            if code:
                style = STYLES[code]
            else:
                cells.append((character, style))
        screen.append(cells)
    return screen


def record(command: list[str | pathlib.Path]) -> Recording:
    frames: list[tuple[float, Screen]] = []
    seen = 0
    with Terminal(command, columns=COLUMNS, rows=ROWS) as terminal:

        def collect(text: str) -> bool:
            nonlocal seen
            for match in FRAME.finditer(text, seen):
                frames.append((time.monotonic(), parse(match[1])))
                seen = match.end()
            return " wins" in text[seen:] and text.endswith("\n")

        terminal.read_until(collect, seconds=600)
    result = "".join(character for character, _ in frames[-1][1][-1]).strip()
    return Recording([(at - frames[0][0], screen) for at, screen in frames], result)


def appearance(recording: Recording) -> list[list[float]]:
    """For every cell of the last frame the time since which it has looked like that."""
    last = recording.frames[-1][1]
    times = [[0.0] * len(line) for line in last]
    for at, screen in recording.frames:
        for row, line in enumerate(last):
            for column, cell in enumerate(line):
                # The lines below the text move down with it, so only a cell of equal row and column counts.
                if row >= len(screen) or column >= len(screen[row]) or screen[row][column] != cell:
                    times[row][column] = at
    return times


def text_elements(x: float, y: float, text: str, style: str, at: float) -> list[str]:
    """One element for every word or row of words: renderers disagree about several spaces together."""
    animation = f' style="animation-duration:{at:.2f}s"' if at > 0 else ""
    kind = f' class="{style}"' if style else ""
    elements = []
    for words in re.finditer(r"│|[^\s│]+(?: [^\s│]+)*", text):
        place = f'x="{x + words.start() * CELL_WIDTH:.1f}" y="{y:.1f}" textLength="{len(words[0]) * CELL_WIDTH:.1f}"'
        elements.append(f"<text {place}{kind}{animation}>{escape(words[0])}</text>")
    return elements


def svg(recording: Recording, title: str) -> str:
    last, times = recording.frames[-1][1], appearance(recording)
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = len(last) * LINE_HEIGHT + TITLE + 2 * MARGIN
    elements = []
    for row, line in enumerate(last):
        y = TITLE + MARGIN + (row + 0.75) * LINE_HEIGHT
        start = 0
        for column in range(1, len(line) + 1):
            ends = column == len(line) or line[column][1] != line[start][1] or times[row][column] != times[row][start]
            if not ends:
                continue
            text = "".join(character for character, _ in line[start:column])
            elements += text_elements(MARGIN + start * CELL_WIDTH, y, text, line[start][1], times[row][start])
            start = column
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * i:.0f}" cy="15" r="5" fill="#4b5263"/>' for i in range(3))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" \
aria-label="A recording of {escape(title)}. {escape(recording.result)}">
<style>
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dae0; \
animation: hidden 0s; }}
.bold {{ font-weight: bold; fill: #ffffff; }}
.faint {{ fill: #7f8795; }}
.green {{ fill: #7fd07f; }}
.cyan {{ fill: #6cc5d8; }}
@keyframes hidden {{ from, to {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}
</style>
<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1e2127"/>
{dots}
<text x="{width / 2:.1f}" y="19" text-anchor="middle" class="faint">{escape(title)}</text>
{chr(10).join(elements)}
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=5, help="recordings to make; the one with the median speedup is kept"
    )
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/race.svg")
    parser.add_argument("--specdec", type=pathlib.Path, default=BUILD / "specdec", help="the program")
    parser.add_argument("--title", help="what stands above the picture (default: the command)")
    arguments, options = parser.parse_known_args()
    recordings = [record([arguments.specdec, "race", "--color", "always", *options]) for _ in range(arguments.runs)]
    for recording in recordings:
        print(recording.result)
    chosen = sorted(recordings, key=lambda recording: recording.speedup)[len(recordings) // 2]
    arguments.output.write_text(svg(chosen, arguments.title or " ".join(["specdec race", *options])), encoding="utf-8")


if __name__ == "__main__":
    main()
