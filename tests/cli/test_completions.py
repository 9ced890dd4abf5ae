"""`specdec completions`: what it writes is run by the shells and by man, and has every option of every command."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest
from tests.cli.terminal import Terminal

COMMANDS = [
    *("bench", "chat", "completions", "generate", "info", "models"),
    *("perplexity", "quantize", "race", "rpc-server", "serve"),
]


def written(specdec: pathlib.Path, *arguments: str) -> str:
    command = [specdec, "completions", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def options(specdec: pathlib.Path, command: str) -> set[str]:
    text = subprocess.run([specdec, command, "--help-all"], capture_output=True, text=True, check=True).stdout
    return set(
        re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", "\n".join(re.findall(r"^  (-.*?)(?:  .*)?$", text, re.MULTILINE)))
    )


def bash(specdec: pathlib.Path, words: list[str]) -> list[str]:
    """What bash offers for the last of the words."""
    script = f"""
        source <("$1" completions bash)
        complete -p specdec >&2
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
        _specdec
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(["bash", "-c", script, "bash", specdec], capture_output=True, text=True, timeout=60)
    assert result.stderr == "complete -o default -F _specdec specdec\n"
    return result.stdout.split()


def test_bash(specdec: pathlib.Path) -> None:
    assert bash(specdec, ["specdec", ""]) == [*COMMANDS, "help", "--help", "--version"]
    assert bash(specdec, ["specdec", "ra"]) == ["race"]
    assert bash(specdec, ["specdec", "chat", "--top"]) == ["--top-k", "--top-p"]
    assert bash(specdec, ["specdec", "generate", "--verification", ""]) == ["auto", "token", "block", "invariant"]
    assert bash(specdec, ["specdec", "chat", "-md", "s"]) == ["self", "suffix"]
    assert bash(specdec, ["specdec", "chat", "-m", "x"]) == []  # bash completes files
    assert bash(specdec, ["specdec", "models", "p"]) == ["pull"]
    assert bash(specdec, ["specdec", "help", "se"]) == ["serve"]
    for command in COMMANDS:
        assert set(bash(specdec, ["specdec", command, "-"])) >= options(specdec, command)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """At a terminal, as a person sees it."""
    (tmp_path / "_specdec").write_text(written(specdec, "zsh"))
    start = f"PROMPT='$ '; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; print REA''DY\n"

    def shown(line: str, wanted: str) -> str:
        with Terminal(["zsh", "-f", "-i"], rows=200, env={"HOME": str(tmp_path)}) as terminal:
            terminal.type(start)
            terminal.read_until(lambda text: "READY\r\n" in text)
            terminal.type(line + "\t")
            return terminal.read_until(lambda text: wanted in text)

    assert "chat with a model" in shown("specdec ", "serve the APIs of OpenAI")
    assert "auto" in shown("specdec generate --verification ", "invariant")
    assert "--top-k" in shown("specdec chat --top-", "--top-p")
    assert "specdec models p" in shown("specdec models p", "ull")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh_reads_all_of_it(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "_specdec").write_text(written(specdec, "zsh"))
    result = subprocess.run(["zsh", "-f", "-n", tmp_path / "_specdec"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    text = (tmp_path / "_specdec").read_text()
    for command in COMMANDS:
        part = text.split(f"    {command})\n")[1].split(" ;;\n")[0]
        assert set(re.findall(r"^ +'\*(--?[\w-]+)\[", part, re.MULTILINE)) >= options(specdec, command)


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "specdec.fish").write_text(written(specdec, "fish"))

    def offered(line: str) -> list[str]:
        script = f"source {tmp_path / 'specdec.fish'}; complete -C '{line}'"
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        command = ["fish", "--no-config", "-c", script]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert result.stderr == ""
        return [row.split("\t")[0] for row in result.stdout.splitlines()]

    assert offered("specdec ") == COMMANDS
    assert {"auto", "token", "block", "invariant"} == set(offered("specdec generate --verification "))
    assert {"--top-k", "--top-p"} == set(offered("specdec chat --top-"))
    for command in COMMANDS:
        wanted = {name for name in options(specdec, command) if name.startswith("--")}
        assert set(offered(f"specdec {command} --")) >= wanted


def test_manual_pages(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    subprocess.run([specdec, "completions", "--folder", tmp_path / "share"], check=True, timeout=60)
    pages = tmp_path / "share" / "man" / "man1"
    assert sorted(path.name for path in pages.iterdir()) == sorted(
        ["specdec.1", *(f"specdec-{command}.1" for command in COMMANDS)]
    )
    assert (pages / "specdec-chat.1").read_text() == written(specdec, "man", "chat")
    assert (pages / "specdec.1").read_text() == written(specdec, "man")
    for name in ("bash-completion/completions/specdec", "zsh/site-functions/_specdec"):
        assert (tmp_path / "share" / name).stat().st_size > 1000
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    for command in COMMANDS:
        format_page = ["groff", "-man", "-Tutf8", "-ww", "-P-c", "-rLL=200n", pages / f"specdec-{command}.1"]
        shown = subprocess.run(format_page, capture_output=True, text=True, timeout=60)
        assert (shown.returncode, shown.stderr) == (0, "")
        text = re.sub(r".\x08", "", shown.stdout)
        names = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))
        assert names >= options(specdec, command) - {"-h", "--help", "--help-all"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of bash, zsh, fish, man [COMMAND] or --folder FOLDER"),
        (["bsh"], '"bsh" is none of bash, zsh, fish and man; did you mean bash?'),
        (["man", "chatt"], "there is no command chatt"),
        (["bash", "chat"], "give one of bash"),
    ],
)
def test_wrong_use(specdec: pathlib.Path, arguments: list[str], message: str) -> None:
    result = subprocess.run([specdec, "completions", *arguments], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
