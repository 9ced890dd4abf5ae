"""The command line: help, version, usage errors (exit code 2), output streams, closed and full outputs."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess

import pytest


def run(specdec: pathlib.Path, *arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [specdec, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


def test_version(specdec: pathlib.Path) -> None:
    result = run(specdec, "--version")
    assert (result.returncode, result.stderr) == (0, "")
    first, build = result.stdout.splitlines()
    name, version = first.split()
    assert name == "specdec"
    assert re.fullmatch(r"(commit [0-9a-f]{9,}, )?llama\.cpp [0-9a-f]{9} of \d{4}-\d\d-\d\d, patched", build)
    assert all(part.isdigit() for part in version.split("."))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["help"],
        ["generate", "--help"],
        ["info", "-h"],
        ["help", "info"],
        ["bench", "--help"],
        ["chat", "--help"],
        ["race", "--help"],
        ["models", "--help"],
        ["completions", "--help"],
    ],
)
def test_help(specdec: pathlib.Path, arguments: list[str]) -> None:
    result = run(specdec, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: specdec ")
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "command",
    [
        "generate",
        "chat",
        "bench",
        "race",
        "info",
        "quantize",
        "perplexity",
        "rpc-server",
        "serve",
        "models",
        "completions",
    ],
)
def test_help_fits_a_screen(specdec: pathlib.Path, command: str) -> None:
    basics, everything = run(specdec, command, "--help").stdout, run(specdec, command, "--help-all").stdout
    assert len(basics.splitlines()) <= 30
    assert max(map(len, everything.splitlines())) <= 80
    options = re.compile(r"^  (-[\w-]+)", re.MULTILINE)
    assert set(options.findall(basics)) - set(re.findall(r"(?<![\w-])--?[\w-]+", everything)) == set()
    assert basics == everything or "--help-all: all options" in basics


def test_a_model_may_be_named_as_elsewhere(
    specdec: pathlib.Path, target_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert run(specdec, "info", "-m", target_path).stdout == run(specdec, "info", target_path).stdout != ""
    (tmp_path / "text.txt").write_text("import os\n" * 100)
    options = ["-f", tmp_path / "text.txt", "-c", 64, "--chunks", 1]
    assert "perplexity  " in run(specdec, "perplexity", "--model", target_path, *options).stdout


ENTRIES = {  # flags of one entry, and what its text ends with
    "-p --prompt": "the prompt, used verbatim",
    "-n --predict --n-predict": "(default: 224)",
    "-r --stop --reverse-prompt": "repeatable",
    "-m --model": "(default: the bundled pair)",
    "-md --model-draft --draft --spec-draft-model": "(default with -m: one on disk)",
    "-k --draft-max --spec-draft-n-max": "(default: auto)",
    "-b --batch-size": "(default: 512)",
    "-s --seed": "(default: -1, a random one)",
    "--temp --temperature": "(default: 0.8)",
    "--top-k": "(default: 40)",
    "--top-p": "(default: 0.95)",
    "--min-p": "(default: 0.05)",
    "--repeat-penalty": "(default: 1)",
    "--presence-penalty": "(default: 0)",
    "--frequency-penalty": "(default: 0)",
    "--repeat-last-n": "(default: 64)",
    "--verification": "(default: auto)",
    "--drafting": "(default: sampled)",
}


def entries(help_text: str) -> dict[str, str]:
    """The flags of each entry, and its text on one line."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=  -)", help_text)[1:]:
        entry = entry.split("\n\n")[0]
        first_column = entry.strip().split("\n")[0].split("  ")[0]
        flags = [word.rstrip(",") for word in first_column.split() if word.startswith("-")]
        found[" ".join(flags)] = " ".join(entry.split())
    return found


def test_help_has_an_entry_with_the_default_of_every_option(specdec: pathlib.Path) -> None:
    found = entries(run(specdec, "generate", "--help-all").stdout)
    assert {flags: found.get(flags, "missing")[-len(end) :] for flags, end in ENTRIES.items()} == ENTRIES
    assert "0 to 63; 0 disables" in found["-k --draft-max --spec-draft-n-max"]


def test_no_command_shows_the_help(specdec: pathlib.Path) -> None:
    result = run(specdec)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: specdec ")


WRONG = {
    "generat": "unknown command generat; did you mean generate?",
    "run qwen": "unknown command run; `specdec chat FILE.gguf`, or `specdec chat OWNER/REPO`, starts a conversation",
    "list": "unknown command list; `specdec models list` lists downloaded models",
    "pull qwen": "unknown command pull; `specdec models pull OWNER/REPO` downloads a model",
    "rm qwen": "unknown command rm; `specdec models rm NAME` removes a downloaded model",
    "--verison": "unknown option --verison; did you mean --version?",
    "": "unknown command",
    "info": "no file given",
    "info a b c": 'unexpected argument "c"',
    "info a b --tensors": "--metadata, --tensors and --check are for one file",
    "-m model.gguf": "unknown option -m; a command comes first: specdec chat -m ..., specdec generate -m ...",
    "info x -q": "unknown option -q\n",
    "info --tensor a": "unknown option --tensor; did you mean --tensors?",
    "info --json=yes a": "--json takes no value",
    "generate prompt": 'unexpected argument "prompt"; a prompt goes after -p, in quotes',
    "generate -p": "-p needs a value (TEXT)",
    "generate -m -p x": "-m needs a value (FILE), but the option -p follows",
    "generate -p x --schema {}": "unknown option --schema; did you mean --json-schema?",
    "generate -p x --temperatur 1": "did you mean --temperature?",
    "generate -p x --qqqqqqq": "unknown option --qqqqqqq\n",
    "generate -p x -f y": "give -p or -f, not both",
    "generate -p x -n -2": '-n: expected a whole number from 0 to 2147483647 or -1, got "-2"',
    "chat -n 0": "-n: expected a whole number from 1",
    "generate -p x -n 1e3": "-n: expected a whole number",
    "generate -p x -k autoo": '-k: expected a whole number from 0 to 63 or auto, got "autoo"',
    "generate -p x -n 0x10": "-n: expected a whole number",
    "generate -p x -n 2147483648": "-n: expected a whole number",
    "generate -p x --predict=": '--predict: expected a whole number from 0 to 2147483647 or -1, got ""',
    "generate -p x -k -1": "-k: expected a whole number from 0 to 63",
    "generate -p x -k 64": "-k: expected a whole number from 0 to 63",
    "generate -p x -b 63": "-b: expected a whole number from 64 to 65536",
    "generate -p x -c -1": "-c: expected a whole number",
    "generate -p x -t 513": "-t: expected a whole number from 1 to 512 or 0",
    "generate -p x -s 18446744073709551616": "-s: expected a whole number",
    "generate -p x -s -2": "-s: expected a whole number",
    "generate -p x --temp -0.1": '--temp: expected a finite number of at least 0, got "-0.1"',
    "generate -p x --temp nan": "--temp: expected a finite number",
    "generate -p x --temp inf": "--temp: expected a finite number",
    "generate -p x --temp 1,5": "--temp: expected a finite number",
    "generate -p x --top-p 0": "--top-p: expected a number above 0 and at most 1",
    "generate -p x --top-p 1.1": "--top-p: expected a number above 0 and at most 1",
    "generate -p x --min-p 2": "--min-p: expected a number of at least 0 and at most 1",
    "generate -p x --top-k -1": "--top-k: expected a whole number",
    "generate -p x --repeat-penalty 0": "--repeat-penalty: expected a number of at least 1e-06 and at most 1000000",
    "generate -p x --repeat-last-n -2": "--repeat-last-n: expected a whole number from -1",
    "generate -p x --color blue": '--color: expected on, off, auto, always or never, got "blue"',
    "generate -p x --color blue -n 1": '--color: expected on, off, auto, always or never, got "blue"',
    "generate -p x -l 5": "-l: expected TOKEN_ID+BIAS or TOKEN_ID-BIAS",
    "generate -p x -l +1": "-l: expected a whole number",
    "generate -p x -l 5+inf": "-l: expected a finite number",
    "generate -p x -l 5+1x": "-l: expected a finite number",
    "generate -p x --verification blok": '--verification: expected auto, token, block or invariant, got "blok"',
    "generate -p x --drafting greedy": '--drafting: expected sampled or argmax, got "greedy"',
    "generate -f /dev/null": "the prompt is empty",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_use(specdec: pathlib.Path, arguments: str) -> None:
    result = run(specdec, *(arguments.split() or [""]))
    assert (result.returncode, result.stdout) == (2, "")
    assert WRONG[arguments] in result.stderr
    command = arguments.split()[:1] if arguments.split()[:1] in (["info"], ["generate"], ["chat"]) else []
    assert result.stderr.startswith(" ".join(["specdec", *command]) + ": ")
    assert result.stderr.endswith("Try '" + " ".join(["specdec", *command]) + " --help'.\n")


@pytest.mark.parametrize("arguments", [["-p", ""], ["-p", "x", "-r", ""]])
def test_empty_strings(specdec: pathlib.Path, arguments: list[str]) -> None:
    result = run(specdec, "generate", *arguments)
    assert result.returncode == 2
    assert "empty" in result.stderr


def test_double_dash_ends_the_options(specdec: pathlib.Path) -> None:
    assert "--json: no such file" in run(specdec, "info", "--", "--json").stderr


def test_prompt_at_a_terminal_is_not_waited_for(specdec: pathlib.Path) -> None:
    primary, secondary = pty.openpty()
    command = [str(specdec), "generate"]
    result = subprocess.run(command, stdin=secondary, capture_output=True, text=True, timeout=60, check=False)
    os.close(primary)
    os.close(secondary)
    assert result.returncode == 2
    assert "no prompt: give -p TEXT or -f FILE, or pipe it in" in result.stderr


def test_prompt_that_cannot_be_read(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"caf\xe9 au lait")
    cases = {"missing.txt": "No such file", ".": "Is a directory", "latin.txt": "not UTF-8 text at byte 3"}
    for name, message in cases.items():
        result = run(specdec, "generate", "-f", tmp_path / name)
        assert (result.returncode, result.stdout) == (1, "")
        assert message in result.stderr


def test_closed_output_is_quiet(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    for command in (
        f"'{specdec}' info --json '{target_path}'",
        f"'{specdec}' generate -p 'import os' --json -n 300 -t 1",
    ):
        script = command + ' | head -n 1 > /dev/null; echo "${PIPESTATUS[0]}"'
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert (result.stdout, result.stderr) == ("0\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_output_is_an_error(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    with open("/dev/full", "w") as full:
        command = [str(specdec), "info", str(target_path)]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert "cannot write to standard output: No space left on device" in result.stderr
