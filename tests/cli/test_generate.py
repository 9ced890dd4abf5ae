"""`specdec generate` with the bundled pair: text and JSON output agree, sources of prompts, colour, interruption."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import time
from typing import Any

import pytest
from tests.cli.terminal import Terminal

import specdec_native as sd

PROMPT = "def bfs(graph, start):"
GREEDY = ["--temp", "0", "-n", "24", "-t", "1", "-k", "7"]
SAMPLED = ["-s", "7", "-n", "24", "-t", "1", "-k", "7"]


def run(
    specdec: pathlib.Path,
    *arguments: object,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
    code: int = 0,
) -> subprocess.CompletedProcess[str]:
    command = [str(specdec), "generate", *map(str, arguments)]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert result.returncode == code, result.stderr
    return result


def run_json(specdec: pathlib.Path, *arguments: object) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    result = run(specdec, *arguments, "--json")
    assert result.stderr == ""
    *pieces, last = map(json.loads, result.stdout.splitlines())
    return pieces, last


def test_copies_are_told_from_drafts_of_the_model(specdec: pathlib.Path) -> None:
    prompt = "".join(f"    self.assertEqual(add({i}, 1), {i + 1})\n" for i in range(12))
    options = ["-p", prompt, "-n", "60", "--temp", "0", "-k", "4"]
    pieces, last = run_json(specdec, *options)
    sources = [piece["draft_source"] for piece in pieces]
    assert {"model", "suffix", None} == set(sources)
    assert last["stats"]["accepted_copies"] == sources.count("suffix")
    assert all(piece["from_draft"] == (piece["draft_source"] is not None) for piece in pieces)
    coloured = run(specdec, *options, "--color", "always")
    assert "\x1b[36m" in coloured.stdout and "\x1b[32m" in coloured.stdout
    assert f"copies   {last['stats']['drafted_copies']} of these proposed" in coloured.stderr
    without, last = run_json(specdec, *options, "--no-suffix")
    assert "suffix" not in {piece["draft_source"] for piece in without}
    assert last["stats"]["drafted_copies"] == 0
    assert [piece["token"] for piece in without] == [piece["token"] for piece in pieces]


@pytest.mark.parametrize("options", [GREEDY, SAMPLED])
def test_text_and_json_agree(specdec: pathlib.Path, options: list[str]) -> None:
    text = run(specdec, "-p", PROMPT, *options)
    pieces, last = run_json(specdec, "-p", PROMPT, *options)
    assert text.stdout == "".join(piece["text"] for piece in pieces)
    assert len(pieces) == 24
    assert all(set(piece) == {"token", "text", "from_draft", "draft_source", "logprob"} for piece in pieces)
    assert all(piece["logprob"] <= 0 for piece in pieces)
    assert set(last) == {"finish_reason", "seed", "verification", "draft_window", "stats"}
    assert last["finish_reason"] == "length"
    stats = last["stats"]
    assert set(stats) == {name for name in dir(sd.Stats) if not name.startswith("_")}
    assert stats["tokens"] == 24
    assert stats["accepted"] == sum(piece["from_draft"] for piece in pieces) > 0
    assert stats["acceptance_rate"] == pytest.approx(stats["accepted"] / stats["drafted"])
    assert stats["tokens_per_target_call"] == pytest.approx(24 / stats["target_calls"])
    parts = stats["draft_seconds"] + stats["target_seconds"] + stats["sampling_seconds"]
    assert 0 < parts <= stats["seconds"]


def test_top_logprobs(specdec: pathlib.Path) -> None:
    pieces, _ = run_json(specdec, "-p", PROMPT, *GREEDY, "--top-logprobs", "3")
    assert len(pieces) == 24
    for piece in pieces:
        top = piece["top_logprobs"]
        assert [set(one) for one in top] == [{"token", "text", "logprob"}] * 3
        assert (top[0]["token"], top[0]["logprob"]) == (piece["token"], piece["logprob"])  # greedy
        assert top[0]["logprob"] >= top[1]["logprob"] >= top[2]["logprob"]
    assert "".join(piece["top_logprobs"][0]["text"] for piece in pieces) == "".join(piece["text"] for piece in pieces)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-logprobs", "3"], "--top-logprobs needs --json"),
        (["--json", "--top-logprobs", "21"], "from 0 to 20"),
        (["--json", "--top-logprobs", "-1"], "from 0 to 20"),
    ],
)
def test_bad_top_logprobs(specdec: pathlib.Path, options: list[str], message: str) -> None:
    result = subprocess.run([specdec, "generate", "-p", PROMPT, *options], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr


def test_greedy_text_does_not_depend_on_the_draft(specdec: pathlib.Path) -> None:
    texts = {
        run(specdec, "-p", PROMPT, *GREEDY, *draft).stdout
        for draft in (["-k", "0"], ["-k", "3"], [], ["-md", "ngram"], ["-md", "suffix"], ["-md", "none"])
    }
    assert len(texts) == 1


def test_the_seed_is_shown_and_repeats_the_text(specdec: pathlib.Path) -> None:
    pieces, last = run_json(specdec, "-p", PROMPT, "-n", "12", "-t", "1", "-k", "5", "-s", "-1")
    assert last["verification"] == "block"
    repeat = ["-s", last["seed"], "--verification", last["verification"]]
    assert run_json(specdec, "-p", PROMPT, "-n", "12", "-t", "1", "-k", "5", *repeat)[0] == pieces


@pytest.mark.parametrize(
    "options", [["-k", "5"], ["-k", "0"], ["-s", "3"], ["-s", "3", "-k", "2", "--verification", "token"]]
)
def test_what_repeats_the_text_is_shown(specdec: pathlib.Path, options: list[str]) -> None:
    command = ["-p", PROMPT, "-n", "24", "-t", "1", "--temp", "1.5"]
    first = run(specdec, *command, *options)
    shown = re.search(r"^repeat +(--seed .*)$", first.stderr, re.MULTILINE)
    assert shown
    assert run(specdec, *command, *options, *shown.group(1).split()).stdout == first.stdout


def test_a_text_that_measured_times_decided_is_not_called_repeatable(specdec: pathlib.Path) -> None:
    shown = run(specdec, "-p", PROMPT, "-n", "2", "-t", "1").stderr
    assert ", verification block\nrepeat   start with --seed: without it, -k auto" in shown


def test_prompt_from_argument_file_and_standard_input(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompt = "class Ä:\n    pass"
    path = tmp_path / "prompt.txt"
    path.write_text(prompt + "\n")
    texts = [
        run(specdec, *GREEDY, "-p", prompt).stdout,
        run(specdec, *GREEDY, f"--prompt={prompt}").stdout,
        run(specdec, *GREEDY, "-e", "-p", prompt.replace("\n", "\\n")).stdout,
        run(specdec, *GREEDY, "-f", path).stdout,
        run(specdec, *GREEDY, stdin=prompt + "\n").stdout,
        run(specdec, *GREEDY, "-f", "-", stdin=prompt).stdout,
    ]
    assert len(set(texts)) == 1
    pieces = run_json(specdec, "-p", "a\\n", "-n", "1", "-t", "1")[1]["stats"]["prompt_tokens"]
    assert pieces > run_json(specdec, "-e", "-p", "a\\n", "-n", "1", "-t", "1")[1]["stats"]["prompt_tokens"]


def test_statistics_say_what_became_of_drafts(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    for options, said in [
        (["-k", "2"], "on: up to 2 per target call, as asked, whether they pay or not"),
        (["-m", target_path, "-md", "none"], "off: there is no draft"),
    ]:
        command = ["-p", PROMPT, "-n", "8", "-t", "1", *map(str, options)]
        assert run_json(specdec, *command)[1]["stats"]["drafting"] == said
        assert f"\ndrafting {said}\n" in run(specdec, *command).stderr
    measured = run_json(specdec, "-p", PROMPT, "-n", "150", "-t", "1")[1]["stats"]["drafting"]
    given = r"(on: should give about|off except for trials: would give at best) [\d.]+ times plain decoding, as"
    assert re.match(given, measured)
    for tokens in ("1", "12"):  # what is expected of a few drafts is a guess
        shown = run(specdec, "-p", PROMPT, "-n", tokens, "-t", "1").stderr
        report = " ".join(shown.split("drafting ")[1].split("\ntarget ")[0].split())
        unknown = (
            r"(on: what drafts gain is not measured yet \(\d+ of \d+ drafts? accepted\)|undecided: .+|off except .+)"
        )
        assert re.fullmatch(unknown, report), report


def test_notes_of_what_has_no_effect(specdec: pathlib.Path) -> None:
    shown = run(specdec, "-p", PROMPT, "-n", "1", "-t", "1", "-ngl", "99", "-c", "100000").stderr
    assert "note: n_gpu_layers (-ngl) has no effect: no device: no device module is installed" in shown
    assert "note: a context of 100000 tokens is longer than what" in shown


def test_a_slow_load_shows_how_far_it_is(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """At a terminal, and gone when it is done. The corpus takes a second."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(40_000)))
    options = ["-p", PROMPT, "-n", "1", "-t", "1", "--no-stats", "--draft-corpus", corpus]
    with Terminal([specdec, "generate", *options]) as terminal:
        text, code = terminal.read_all()
    assert code == 0
    assert re.search(r"\r(tokenizing|indexing) the corpus: \d+ %\x1b\[K", text)
    assert text.rindex("\r\x1b[K") > text.rindex(" %\x1b[K"), "the line is cleared"


def test_one_is_not_plural(specdec: pathlib.Path) -> None:
    errors = run(specdec, "-p", "import os", "-n", "1", "-t", "1").stderr
    assert re.search(r"^output   1 token in ", errors, re.MULTILINE) and re.search(
        r"^target   1 call, ", errors, re.MULTILINE
    )


def test_statistics_on_standard_error(specdec: pathlib.Path) -> None:
    shown = run(specdec, "-p", PROMPT, *GREEDY)
    for part in [
        "prompt ",
        "output   24 tokens",
        "acceptance rate",
        "tokens per call",
        "draft ",
        "sampling ",
        "repeat   --seed ",
        "ended    by length",
    ]:
        assert part in shown.stderr
    assert max(map(len, shown.stderr.splitlines())) <= 80
    silent = run(specdec, "-p", PROMPT, *GREEDY, "--no-stats")
    assert (silent.stdout, silent.stderr) == (shown.stdout, "")


def test_zero_tokens(specdec: pathlib.Path) -> None:
    assert run(specdec, "-p", PROMPT, "-n", "0", "-t", "1").stdout == ""
    pieces, last = run_json(specdec, "-p", PROMPT, "-n", "0", "-t", "1")
    assert (pieces, last["finish_reason"]) == ([], None)


def test_no_limit_but_the_context(specdec: pathlib.Path) -> None:
    _, last = run_json(specdec, "-p", PROMPT, *GREEDY, "-n", "-1", "-c", "512", "-l", "0-inf")
    assert last["finish_reason"] == "context"
    assert last["stats"]["tokens"] + last["stats"]["prompt_tokens"] in (512, 513)  # the last one need not be read
    assert run_json(specdec, "-p", PROMPT, *GREEDY, "-n", "-1", "-r", "\n")[1]["finish_reason"] == "stop"


def test_stop_strings(specdec: pathlib.Path) -> None:
    text = run(specdec, "-p", PROMPT, *GREEDY).stdout
    stop = text[len(text) // 2 :][:6]
    stopped = run(specdec, "-p", PROMPT, *GREEDY, "-r", "no such text", "--stop", stop)
    assert stopped.stdout == text[: text.index(stop)]
    assert "ended    by stop" in stopped.stderr


def test_logit_bias_bans_a_token(specdec: pathlib.Path) -> None:
    first = run_json(specdec, "-p", PROMPT, *GREEDY)[0][0]["token"]
    pieces, _ = run_json(specdec, "-p", PROMPT, *GREEDY, "-l", f"{first}-inf")
    assert first not in {piece["token"] for piece in pieces}


def test_color(specdec: pathlib.Path) -> None:
    plain = run(specdec, "-p", PROMPT, *GREEDY).stdout
    assert "\x1b" not in plain
    for form in (["--color", "on"], ["--color=always"], ["--color"], ["-co"]):  # alone in the end, and before an option
        for options in ([*form, *GREEDY], [*GREEDY, *form]):
            colored = run(specdec, "-p", PROMPT, *options, env={**os.environ, "NO_COLOR": "1"}).stdout
            assert "\x1b[32m" in colored
            assert colored.replace("\x1b[32m", "").replace("\x1b[0m", "") == plain
    for form in (["--color", "off"], ["--color", "never"], ["--color=auto"]):
        assert run(specdec, "-p", PROMPT, *GREEDY, *form).stdout == plain


def at_a_terminal(specdec: pathlib.Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    primary, secondary = pty.openpty()
    command = [str(specdec), "generate", *arguments, "--no-stats"]
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", **(env or {})}
    process = subprocess.run(
        command, stdout=secondary, stderr=subprocess.PIPE, timeout=120, env=environment, check=True
    )
    assert process.stderr == b""
    os.close(secondary)
    output = b""
    try:
        while chunk := os.read(primary, 65536):
            output += chunk
    except OSError:  # how Linux reports that the other end is closed
        pass
    os.close(primary)
    return output.decode().replace("\r\n", "\n")


def test_at_a_terminal_the_prompt_and_colors_are_shown(specdec: pathlib.Path) -> None:
    plain = run(specdec, "-p", PROMPT, *GREEDY).stdout
    options = ["-p", PROMPT, *GREEDY]
    shown = at_a_terminal(specdec, *options)
    assert f"\x1b[2m{PROMPT}\x1b[0m" in shown
    assert "\x1b[32m" in shown
    for no_color in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert at_a_terminal(specdec, *options, env=no_color).rstrip("\n") == (PROMPT + plain).rstrip("\n")
    alone = at_a_terminal(specdec, *options, "--no-display-prompt", "--color", "never")
    assert alone == plain if plain.endswith("\n") else plain + "\n"
    assert run(specdec, *options, "--display-prompt").stdout == PROMPT + plain


def test_first_interrupt_ends_cleanly(specdec: pathlib.Path) -> None:
    command = [str(specdec), "generate", "-p", PROMPT, "-n", "3000", "-t", "1", "-c", "4096", "--json", "-l", "0-inf"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    last = json.loads(output.splitlines()[-1])
    assert process.returncode == 130
    assert errors.startswith("note: a context of 4096 tokens is longer than") and errors.count("\n") == 1
    assert "token" in first
    assert last["finish_reason"] == "cancelled"
    assert 0 < last["stats"]["tokens"] < 3000


def test_an_interrupt_ends_the_tokenizing_of_a_long_prompt(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Also if the prompt turns out to be too long. The signal comes as soon as it is caught, before the prompt is
    tokenized."""
    (tmp_path / "long.txt").write_text("x " * 2_000_000)
    command = [str(specdec), "generate", "-f", str(tmp_path / "long.txt"), "-c", "60000", "-t", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

        def catches_interrupts() -> bool:
            caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
            return caught is not None and bool(int(caught[1], 16) >> (signal.SIGINT - 1) & 1)

        while process.poll() is None and not catches_interrupts():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "the context holds 60000" in run(specdec, *command[2:4], "-c", "60000", code=1).stderr


def test_a_terminal_shows_how_far_a_long_prompt_is_read(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "long.txt").write_text("def f(x):\n    return x\n" * 100)
    with Terminal([specdec, "generate", "-f", tmp_path / "long.txt", "-c", "4000", "-t", "1", "-n", "1"]) as terminal:
        text, code = terminal.read_all()
    assert code == 0
    progress, rest = text.rsplit("\r\x1b[K", 1)
    assert re.search(r"\rreading: 0 of \d+ tokens", progress) and "def f(x)" not in progress and "def f(x)" in rest
    assert "reading:" not in rest.split("def f(x)")[-1]


def test_second_interrupt_kills(specdec: pathlib.Path) -> None:
    """Nobody reads the output: the program blocks on a full pipe and cannot end cleanly."""
    command = [str(specdec), "generate", "-p", PROMPT, "-n", "4000", "-t", "1", "-c", "4096", "--json", "-l", "0-inf"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert process.returncode == -signal.SIGINT or process.returncode == 130


def test_models_named(
    specdec: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    bundled = run(specdec, "-p", PROMPT, *GREEDY)
    named = run(specdec, "-p", PROMPT, *GREEDY, "-m", target_path, "-md", draft_path)
    alone = run(specdec, "-p", PROMPT, *GREEDY, "-m", target_path, "-md", "none")
    assert bundled.stdout == named.stdout == alone.stdout
    assert "drafts" in named.stderr
    assert "drafts" not in alone.stderr
    missing = run(specdec, "-p", PROMPT, "-m", tmp_path / "no.gguf", code=1)
    assert missing.stderr == f"specdec generate: {tmp_path}/no.gguf: no such file; check the path\n"


def test_bundled_models_are_found_beside_the_program_and_in_a_virtual_environment(
    specdec: pathlib.Path, target_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    models = target_path.parent
    binary = tmp_path / "bin" / "specdec"
    binary.parent.mkdir()
    shutil.copy(specdec, binary)
    assert "the bundled pair was not found in" in run(binary, "-p", PROMPT, *GREEDY, code=1).stderr
    places = ["bin/models", "lib/python3.99/site-packages/specdec_native/models"]
    for place in map(tmp_path.joinpath, places):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(models)
        assert "drafts" in run(binary, "-p", PROMPT, *GREEDY).stderr
        place.unlink()
    for model in models.glob("*.gguf"):
        (binary.parent / model.name).symlink_to(model)
    assert "drafts" in run(binary, "-p", PROMPT, *GREEDY).stderr


def test_prompt_longer_than_the_context(specdec: pathlib.Path) -> None:
    result = run(specdec, "-p", "import os\n" * 100, "-c", "64", "-t", "1", code=1)
    assert "the context holds 64; shorten the prompt or ask for a longer context (-c)\n" in result.stderr


def test_kv_type(specdec: pathlib.Path) -> None:
    f16, q8_0 = (run_json(specdec, "-p", PROMPT, *GREEDY, "--kv-type", kv_type)[0] for kv_type in ("f16", "q8_0"))
    assert len(q8_0) == 24 and q8_0[0]["logprob"] != f16[0]["logprob"]
    assert "q8_0" in run(specdec, "-p", PROMPT, "--kv-type", "q4_0", code=2).stderr


def test_no_repack(specdec: pathlib.Path) -> None:
    repacked, *as_in_file = (
        run_json(specdec, "-p", PROMPT, *GREEDY, *options)[0] for options in ([], ["--no-repack"], ["-nr"])
    )
    assert as_in_file == [repacked, repacked] and len(repacked) == 24


def test_no_mmap(specdec: pathlib.Path) -> None:
    mapped, read = (run_json(specdec, "-p", PROMPT, *GREEDY, *options)[0] for options in ([], ["--no-mmap"]))
    assert mapped == read and len(read) == 24
