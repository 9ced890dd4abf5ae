"""Whoever types a flag of llama.cpp gets it, or one line that says what to use instead."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "cpp" / "cli" / "llama_flags.cpp"

# Those that people type most, among them all that llama-cli's documentation shows.
TYPED = """
-cnv -no-cnv -st -fa -ctk -ctv --mlock --draft --draft-min --draft-p-min -ngld -cd -td -tb -ub --no-warmup -v --log-file
--ignore-eos --special -sysf --keep --context-shift --prompt-cache --perf -hf -hfd --grammar -j --lora --mirostat
--samplers
--typical --xtc-probability --dry-multiplier --dynatemp-range --top-nsigma
-cb --cont-batching --cache-reuse --slot-save-path --kv-unified --ssl-key-file --embedding --mmproj --models-dir
--no-slots
"""


def names_in_table() -> list[str]:
    table = SOURCE.read_text().split("constexpr Flags llama_flags_table[]")[1].split("};")[0]
    rows = re.findall(r"\{((?:\s*\"[^\"]*\")+),", re.sub(r"\\\"", "", table))
    return [name for row in rows for name in "".join(re.findall(r'"([^"]*)"', row)).split()]


def error(specdec: pathlib.Path, command: str, *arguments: str) -> str:
    result = subprocess.run(
        [specdec, command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert result.returncode == 2, (command, arguments)
    return result.stderr


def options(specdec: pathlib.Path, command: str) -> set[str]:
    text = subprocess.run([specdec, command, "--help-all"], capture_output=True, text=True, check=True).stdout
    return set(
        re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", "\n".join(re.findall(r"^  (-.*?)(?:  .*)?$", text, re.MULTILINE)))
    )


@pytest.mark.parametrize("command", ["generate", "chat", "serve"])
def test_every_flag_is_an_option_or_has_a_line(specdec: pathlib.Path, command: str) -> None:
    names = names_in_table()
    own = options(specdec, command)
    assert len(names) > 180 and set(TYPED.split()) <= {*names, *own}
    assert {"-m", "--temp", "-k"} < own
    for flag in names:
        if flag not in own:
            line = error(specdec, command, flag, "--no-such-option").splitlines()[0]
            answer = rf"specdec {command}: there is no option {flag}: .+|note: {flag} changes nothing: .+"
            if flag in ("-ctk", "--cache-type-k", "-ctv", "--cache-type-v"):
                answer = rf"note: {flag} is taken as --kv-type: .+"
            assert re.fullmatch(answer, line), line


def test_what_is_done_anyway_may_be_asked_for(specdec: pathlib.Path) -> None:
    question = ["-cnv", "-fa", "on", "--no-warmup", "-mli", "-dt", "-1", "-n", "2", "-t", "1", "-p", "import os", "-st"]
    result = subprocess.run(
        [specdec, "chat", *question], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert result.returncode == 0 and "\x1b[" not in result.stdout
    colors = ["--color", "-k", "2", "-n", "60", "--temp", "0"]
    colored = subprocess.run(
        [specdec, "chat", *question, *colors], capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert colored.returncode == 0 and b"\x1b[32m" in colored.stdout
    notes = re.findall(r"^note: (-\S+) changes nothing: .+$", result.stderr, re.MULTILINE)
    assert notes == ["-cnv", "-fa", "--no-warmup", "-mli", "-dt"]
    assert "there is no option -cnv: `specdec chat` holds a conversation" in error(specdec, "generate", "-cnv")


def test_all_that_is_wrong_is_said_at_once(specdec: pathlib.Path) -> None:
    lines = error(specdec, "chat", "-ub", "512", "-sm", "none", "--temperatur", "1", "--mlock").splitlines()
    starts = ["specdec chat: there is no option -ub: ", "there is no option -sm: "]
    starts += ["unknown option --temperatur; did you mean --temperature?", "there is no option --mlock: ", "Try "]
    assert len(lines) == 5 and all(line.startswith(start) for line, start in zip(lines, starts, strict=True)), lines


def test_no_name_stands_twice() -> None:
    names = names_in_table()
    assert len(set(names)) == len(names)


def test_what_a_line_names_exists(specdec: pathlib.Path) -> None:
    """Every option that an advice mentions is one of `generate`, `chat` or `serve`."""
    known = (
        options(specdec, "generate")
        | options(specdec, "chat")
        | options(specdec, "serve")
        | {"--help", "--help-all", "--metadata"}
    )
    advice = re.findall(r'\{(?:\s*"[^"]*")+,\s*"([^"]*)"', re.sub(r"\\\"", "'", SOURCE.read_text()))
    assert len(advice) > 35
    mentioned = {flag for text in advice for flag in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text)}
    assert "--kv-type" in mentioned
    assert mentioned - known == set()


def test_other_unknown_options_get_a_guess(specdec: pathlib.Path) -> None:
    assert "unknown option --temperatur; did you mean --temperature?" in error(specdec, "generate", "--temperatur")


def test_flags_of_llama_cpp_that_are_mapped(specdec: pathlib.Path) -> None:
    """A command line that people bring along runs, and says what its flags mean here."""
    flags = [
        "-ngld",
        "99",
        "-tb",
        "2",
        "-td",
        "2",
        "--no-context-shift",
        "-ctk",
        "q8_0",
        "-ctv",
        "q8_0",
        "-devd",
        "none",
    ]
    command = [specdec, "generate", "-p", "import os", "-n", "2", "-t", "1", *flags]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=True)
    notes = re.findall(r"^note: (-\S+) (?:changes nothing|is taken as --kv-type): .+$", result.stderr, re.MULTILINE)
    assert notes == ["-tb", "-td", "--no-context-shift", "-ctk", "-ctv"]
    assert "--kv-type" not in result.stdout and result.stdout
    assert '-ctk: expected f16 or q8_0, got "q4_0"' in error(specdec, "generate", "-p", "x", "-ctk", "q4_0")
