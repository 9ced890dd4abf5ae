"""`specdec race` at a terminal of 80 columns and in a pipe."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import unicodedata

import pytest
from tests.cli.terminal import Terminal

NAMES = ["F16", "F16 + speculation"]
QUICK = ["-p", "def bfs(graph, start):", "-n", "40", "-t", "1", "-s", "7", "-k", "3"]
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"
SECOND_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
STYLE = re.compile(r"\x1b\[\d+m")


def width(line: str) -> int:
    cells = 0
    for character in line:
        assert unicodedata.category(character) not in ("Cc", "Cf"), repr(line)
        if unicodedata.combining(character) == 0:
            cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def frames(text: str) -> list[list[str]]:
    """The complete frames on the second screen, without colours."""
    drawn = text.split(SECOND_SCREEN, 1)[1].split(FIRST_SCREEN, 1)[0]
    complete = re.findall(r"\x1b\[H(.*?)\x1b\[K\x1b\[J", drawn, re.DOTALL)
    return [re.split(r"\x1b\[K\r+\n", STYLE.sub("", frame)) for frame in complete]


def final_lines(text: str) -> list[str]:
    """What remains on the main screen."""
    return STYLE.sub("", text.rsplit(FIRST_SCREEN, 1)[1]).split("\r\n")


def check_frame(frame: list[str], columns: int, rows: int) -> None:
    assert len(frame) <= rows
    assert max(map(width, frame)) <= columns
    assert [name.strip() for name in frame[0].split("│")] == NAMES
    rule = max(i for i, line in enumerate(frame) if line.startswith("─"))
    assert all(line.count("│") == len(NAMES) - 1 for line in frame[2:rule])
    assert len({width(line) for line in frame[: rule + 1]}) == 1
    assert all(re.fullmatch(r" *([\d.]+ tokens/s)? *", cell) for cell in frame[rule + 1].split("│"))


def test_two_columns_in_80(specdec: pathlib.Path) -> None:
    with Terminal([specdec, "race", *QUICK], columns=80, rows=20) as terminal:
        text, code = terminal.read_all()
    assert code == 0
    assert (text.count(SECOND_SCREEN), text.count(HIDDEN), text.count(SHOWN), text.count(FIRST_SCREEN)) == (1, 1, 1, 1)
    shown = frames(text)
    assert shown
    for frame in shown:
        check_frame(frame, 80, 20)
    assert "\x1b[32m" in text, "accepted drafts are green"
    *lines, winner, end = final_lines(text)
    assert end == ""
    check_frame(lines, 80, 10**6)
    assert re.match(r"F16( \+ speculation)? wins: ", winner)
    assert all("tokens/s" in cell for cell in lines[-1].split("│"))
    columns = ["".join(line.split("│")[i] for line in lines[2:-2]).replace(" ", "") for i in range(len(NAMES))]
    assert all(column.startswith("defbfs(graph,start):") for column in columns)


def test_rejected_drafts_are_shown_until_the_next_tokens(specdec: pathlib.Path) -> None:
    slowly = ["--speed", "0.1"]  # otherwise the next tokens may come before the next frame
    for drafts, branches in (["-k", "6"], False), (["-k", "auto", "--draft-tree", "12"], True):
        with Terminal([specdec, "race", *QUICK, *drafts, *slowly], columns=160, rows=30) as terminal:
            text, code = terminal.read_all()
        assert code == 0
        drawn, rest = text.split(FIRST_SCREEN, 1)
        cut = re.findall(r"\x1b\[31m ?\[(.*?)\x1b\[0m", drawn)
        assert cut
        assert any(" / " in branch for branch in cut) == branches, cut
        assert "\x1b[31m" not in rest


def test_the_winner_is_named_in_40_columns(specdec: pathlib.Path) -> None:
    with Terminal([specdec, "race", *QUICK], columns=40, rows=20) as terminal:
        text, _ = terminal.read_all()
    lines = final_lines(text)
    assert all(width(line) <= 40 for line in lines)
    end = next(i for i, line in enumerate(lines) if " wins: " in line)
    shown = " ".join(line.strip() for line in lines[end:] if line)
    assert re.fullmatch(
        r"F16( \+ speculation)? wins: (none of the others is faster|[\d.]+ times as fast as F16)", shown
    )


def test_columns_hold_the_texts_of_a_pipe(specdec: pathlib.Path) -> None:
    """The columns show the generated texts; without a terminal they are printed one after another."""
    greedy = [*QUICK, "--temp", "0"]
    piped = subprocess.run([specdec, "race", *greedy], capture_output=True, text=True, timeout=120, check=True)
    assert "\x1b" not in piped.stdout
    parts = re.split(r"^== (.*)\n", piped.stdout, flags=re.MULTILINE)
    assert parts[0] == "" and parts[1::2] == NAMES
    texts = [re.fullmatch(r"(.*?)\n?[\d.]+ tokens/s\n\n(.* wins: .*\n)?", part, re.DOTALL) for part in parts[2::2]]
    assert all(texts) and texts[-1] is not None and texts[-1][2]
    with Terminal([specdec, "race", *greedy], columns=80) as terminal:
        lines = final_lines(terminal.read_all()[0])[2:-4]
    for i, text in enumerate(texts):
        assert text is not None
        column = "".join(line.split("│")[i] for line in lines)
        assert "".join(column.split()) == "".join((QUICK[1] + text[1]).split())
    assert texts[0] is not None and texts[0][1] == texts[1][1], "greedy text does not depend on the draft"


def test_lines_break_at_blanks(specdec: pathlib.Path) -> None:
    prose = "# A function that returns the largest of all numbers that stand in a list, or None if the list is empty"
    with Terminal([specdec, "race", "-p", prose, "-n", "8", "-t", "1", "-l", "0-inf"], columns=80) as terminal:
        rows = [line.split("│")[0].strip() for line in final_lines(terminal.read_all()[0])[2:-2]]
    assert " ".join(rows).startswith(prose)


def test_mxfp6_on_request(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [specdec, "race", *QUICK, "--mxfp6", "auto"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment).stdout
    names = re.findall(r"^== (.*)$", shown, flags=re.MULTILINE)
    assert names == [*NAMES, "MXFP6", "MXFP6 + speculation"] and list(tmp_path.iterdir()) == []


def test_drafts_do_not_know_the_other_outputs(specdec: pathlib.Path) -> None:
    """Suffix decoding copies from earlier outputs: not from the warm-up's, and not from those of the modes before."""
    options = [*QUICK[:4], "-t", "1", "--temp", "0", "-k", "3", "-md", "suffix", "--color", "always"]
    models = specdec.parent / "models"
    options += ["-m", str(models / "stdlib-target-f16.gguf")]
    alone, race = (
        subprocess.run([specdec, command, *options], capture_output=True, text=True, timeout=120, check=True).stdout
        for command in ("generate", "race")
    )
    shown = re.split(r"\n[\d.]+ tokens/s\n", race.split("== F16 + speculation\n")[1])[0]
    assert shown.split("\x1b[32m") == alone.removesuffix("\n").split("\x1b[32m")


def test_few_tokens_are_not_timed(specdec: pathlib.Path) -> None:
    for tokens, is_timed in ((7, False), (8, True)):
        options = [*QUICK[:2], "-n", str(tokens), "-t", "1", "-l", "0-inf"]
        shown = subprocess.run(
            [specdec, "race", *options], capture_output=True, text=True, timeout=120, check=True
        ).stdout
        assert shown.count(" tokens/s") == (2 if is_timed else 0)
        assert shown.count("too few tokens to time") == (0 if is_timed else 3)
        assert (" wins: " in shown) == is_timed and shown.endswith("no winner: too few tokens to time\n") != is_timed
    with Terminal([specdec, "race", *QUICK[:2], "-n", "1", "-t", "1"], columns=80) as terminal:
        *_, speeds, winner, _ = final_lines(terminal.read_all()[0])
    assert speeds.count("too few tokens to time") == 2 and winner.startswith("no winner")


def test_colors_can_be_off(specdec: pathlib.Path) -> None:
    with Terminal([specdec, "race", *QUICK], env={"NO_COLOR": "1"}) as terminal:
        text, code = terminal.read_all()
    assert code == 0 and not STYLE.search(text)
    colored = subprocess.run(
        [specdec, "race", *QUICK, "--color", "always"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "\x1b[32m" in colored.stdout
    with Terminal([specdec, "race", *QUICK], env={"TERM": "dumb"}) as terminal:
        text, code = terminal.read_all()
    assert code == 0 and "== F16\r\n" in text and HIDDEN not in text


def test_wide_characters_tabs_and_controls(specdec: pathlib.Path) -> None:
    prompt = "\tx = '漢字かな" + "漢" * 30 + "' # e\u0301 \x1b[2J \x9b 😀\r|"
    with Terminal([specdec, "race", *QUICK[2:], "-p", prompt], columns=80) as terminal:
        text, code = terminal.read_all()
    assert code == 0 and "\x1b[2J" not in text and "\x9b" not in text
    *lines, _, _ = final_lines(text)
    check_frame(lines, 80, 10**6)
    first = [line.split("│")[0] for line in lines[2:-2]]
    assert first[0].startswith("        x = '漢字かな")
    column = "".join(line.removesuffix(" ") for line in first)
    assert "漢" * 10 in column and "e\u0301" in column
    assert "\\x1b[2J" in "".join("".join(first).split())


def test_a_resized_terminal(specdec: pathlib.Path) -> None:
    slow = [*QUICK, "--speed", "0.01"]
    with Terminal([specdec, "race", *slow], columns=120) as terminal:
        terminal.read_until(lambda text: SECOND_SCREEN in text and len(frames(text)) >= 2)
        assert max(map(width, frames(terminal.text)[0])) > 80
        terminal.resize(70)
        before = len(frames(terminal.text))
        terminal.read_until(lambda text: len(frames(text)) > before + 10)
        check_frame(frames(terminal.text)[-1], 70, 24)
        terminal.type("\x03")
        assert terminal.read_all()[1] == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_restores_the_terminal(
    specdec: pathlib.Path, tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    slow = [*QUICK, "--speed", "0.01", "--mxfp6", "auto"]
    with Terminal([specdec, "race", *slow], env={"TMPDIR": str(tmp_path)}) as terminal:
        terminal.read_until(lambda text: SECOND_SCREEN in text and len(frames(text)) >= 2)
        assert HIDDEN in terminal.text and SHOWN not in terminal.text
        terminal.process.send_signal(number)
        text, code = terminal.read_all()
    assert code == 130
    assert text.endswith(SHOWN + FIRST_SCREEN + "specdec race: interrupted\r\n")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves(specdec: pathlib.Path) -> None:
    script = f"'{specdec}' race -n 40 -t 1 | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env=os.environ, check=True
    )
    assert result.stdout == "== F16\n0\n"


def test_make_demo(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """`make demo` with a smaller shape: its last line is who wins, and both columns have the same text."""
    root = pathlib.Path(__file__).parents[2]
    virtual_environment = pathlib.Path(sys.prefix)
    model = tmp_path / "demo.gguf"
    names = {"SPECDEC": specdec, "DEMO_SHAPE": "115m", "DEMO_MODEL": model, "VENV": virtual_environment}
    settings = [f"{name}={value}" for name, value in names.items()]
    make: list[str | pathlib.Path] = ["make", "--silent", "-C", root, "-o", "program", *settings, "demo"]
    shown = subprocess.run(make, capture_output=True, text=True, timeout=300, check=True).stdout
    parts = re.split(r"^== (.*)\n", shown, flags=re.MULTILINE)
    assert parts[1::2] == ["MXFP6", "MXFP6 + speculation"]
    plain, speculative = (re.split(r"\n[\d.]+ tokens/s\n", part)[0] for part in parts[2::2])
    assert plain == speculative and len(plain) > 100
    assert re.match(r"MXFP6( \+ speculation)? wins: ", shown.splitlines()[-1])
    assert list(tmp_path.iterdir()) == [model], "the F16 file on the way is removed"


@pytest.mark.parametrize(("free", "shape"), [(3_200_000, "1.1b"), (2_000_000, "115m"), ("", "115m")])
def test_the_demo_fits_the_disk(free: object, shape: str) -> None:
    root = pathlib.Path(__file__).parents[2]
    settings = [f"DEMO_FREE_KB={free}", "DEMO_LARGE=/none", "VENV=/venv", "SPECDEC=/specdec"]
    command = ["make", "-n", "-C", root, "-o", "program", "-o", "/venv/.ready", *settings, "BUILD=/none", "demo"]
    planned = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"models/widen.py {shape} " in planned and f'race -m "/none/demo-{shape}-mxfp6.gguf"' in planned


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--speed", "0"], "--speed: expected a number above 0"),
        (["-k", "0"], "nothing to compare with: -k 0 turns drafts off"),
        (["-md", "none"], "nothing to compare with: give a draft"),
        (["-p", "a", "-f", "b"], "give -p or -f, not both"),
        (["prompt"], 'unexpected argument "prompt"; a prompt goes after -p'),
    ],
)
def test_usage(specdec: pathlib.Path, arguments: list[str], message: str) -> None:
    result = subprocess.run([specdec, "race", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
