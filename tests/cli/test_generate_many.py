"""`specdec generate --prompts`: results in the order of the prompts, also after failures, interruptions and crashes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

import specdec_native as sd
from specdec_native import _core

OPTIONS = ["-t", "2", "-np", "4", "-k", "3", "-n", "16", "-s", "5"]
PROMPTS = [
    "def bfs(graph, start):",
    "class Stack:\n",
    "import os\n",
    "x =",
    "# a comment",
    "for i in",
    "try:\n",
    "def f(",
]


def write_lines(path: pathlib.Path, lines: list[dict[str, Any] | str]) -> pathlib.Path:
    path.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8"
    )
    return path


def run(
    specdec: pathlib.Path, prompts: pathlib.Path, output: pathlib.Path, *options: object, code: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [specdec, "generate", "--prompts", prompts, "--output", output, *OPTIONS, *options]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    return result


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def wait_for_lines(process: subprocess.Popen[Any], path: pathlib.Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while (
        (not path.exists() or path.read_text().count("\n") < count)
        and time.monotonic() < deadline
        and process.poll() is None
    ):
        time.sleep(0.005)
    assert process.poll() is None


def without_times(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reproducible part of stats. What is drafted depends on the outputs before, which may be copied."""
    kept = ("prompt_tokens", "tokens")
    return [{**r, "stats": {name: r["stats"][name] for name in kept}} if "stats" in r else r for r in results]


def test_top_logprobs_of_a_line(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines: list[dict[str, Any] | str] = [
        {"prompt": "x =", "temperature": 0},
        {"prompt": "x =", "temperature": 0, "top_logprobs": 2},
    ]
    run(specdec, write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    without, result = read(tmp_path / "out.jsonl")
    assert "tokens" not in without and result["text"] == without["text"]
    assert "".join(piece["text"] for piece in result["tokens"]) == result["text"]
    for piece in result["tokens"]:
        assert [piece["token"], piece["logprob"]] == [piece["top_logprobs"][0][name] for name in ("token", "logprob")]
        assert len(piece["top_logprobs"]) == 2


def test_results_are_those_of_single_runs_in_order(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines: list[dict[str, Any] | str] = [
        {"prompt": prompt, "max_tokens": 4 + 5 * i % 17} for i, prompt in enumerate(PROMPTS)
    ]
    output = tmp_path / "out.jsonl"
    result = run(specdec, write_lines(tmp_path / "in.jsonl", lines), output)
    assert "8 prompts" in result.stderr
    assert re.search(r"^drafting (on|off|undecided)", result.stderr, re.MULTILINE)
    results = read(output)
    assert [r["index"] for r in results] == list(range(8))
    assert list(tmp_path.iterdir()) == [tmp_path / "in.jsonl", output] or set(tmp_path.iterdir()) == {
        tmp_path / "in.jsonl",
        output,
    }
    assert all(r["stats"]["drafting"].startswith(("on", "off", "undecided")) for r in results)
    for i, (line, r) in enumerate(zip(lines, results, strict=True)):
        assert isinstance(line, dict)
        command = [
            specdec,
            "generate",
            "-p",
            line["prompt"],
            "-n",
            line["max_tokens"],
            "-s",
            r["seed"],
            "-k",
            "3",
            "-t",
            "2",
            "--no-stats",
        ]
        alone = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
        assert r["text"] == alone and r["seed"] == _core.derived_seed(5, i) and r["finish_reason"] == "length"
        assert r["stats"]["tokens"] == line["max_tokens"]


def nested(depth: int) -> str:
    """A request with an "id" nested to the given depth."""
    return '{"prompt":"x","id":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def test_bad_lines_fail_alone(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    good = {"prompt": "import os\n", "seed": 1}
    bad: list[tuple[dict[str, Any] | str, str]] = [
        ("{", "not JSON"),
        ("[1]", 'not a JSON object with a "prompt"'),
        ({"text": "x"}, 'not a JSON object with a "prompt"'),
        ({"prompt": 3}, "prompt is 3; it must be a string or a list of token ids"),
        ({"prompt": None}, "prompt is null; it must be a string or a list of token ids"),
        ({"prompt": []}, "the prompt is empty"),
        ({"prompt": [5, "a"]}, 'a prompt token is "a"; it must be a whole number'),
        ({"prompt": [5, 4096]}, "a prompt token is 4096; it must be a whole number from 0 to 4095"),
        ({"prompt": [-1]}, "a prompt token is -1"),
        (nested(101), "values nested more than 100 levels deep"),
        (nested(200_000), "values nested more than 100 levels deep"),
        ('{"prompt":"x","id":' + '{"a":' * 100_000, "values nested more than 100 levels deep"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"prompt": "x", "temprature": 1}, 'unknown option "temprature"'),
        ({"prompt": "x", "temperature": "hot"}, 'temperature is "hot"; it must be a finite number of at least 0'),
        ({"prompt": "x", "temperature": -1}, "temperature is -1; it must be a finite number of at least 0"),
        ({"prompt": "x", "max_tokens": 1.5}, "max_tokens is 1.5; it must be a whole number from 0"),
        ({"prompt": "x", "max_tokens": 2**40}, "max_tokens"),
        ({"prompt": "x", "seed": -1}, "seed is -1"),
        ({"prompt": "x", "num_draft_tokens": 64}, "num_draft_tokens is 64"),
        ({"prompt": "x", "verification": "no"}, 'verification is "no"'),
        ({"prompt": "x", "stop": [1]}, "stop is [1]; it must be a string or a list of strings"),
        ({"prompt": "x", "logit_bias": {"a": 1}}, 'token id "a"'),
        ({"prompt": "x " * 5000}, "shorten the prompt or ask for a longer context (-c)"),
    ]
    lines: list[dict[str, Any] | str] = [line for one, _ in bad for line in (one, good)]
    output = tmp_path / "out.jsonl"
    result = run(specdec, write_lines(tmp_path / "in.jsonl", lines), output, code=1)
    assert f"{len(bad)} failed" in result.stderr
    results = read(output)
    assert len({r["text"] for r in results[1::2]}) == 1 and all("error" not in r for r in results[1::2])
    for i, (r, (_, message)) in enumerate(zip(results[::2], bad, strict=True)):
        assert message in r["error"] and r["error"].startswith(f"line {2 * i + 1}: "), r
        assert "text" not in r


def test_every_option_of_a_line_counts(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines: list[dict[str, Any] | str] = [
        {"prompt": "def f(", "temperature": 0, "max_tokens": 12, "id": {"any": "thing"}},
        {"prompt": "def f(", "top_k": 1, "max_tokens": 12, "num_draft_tokens": 0},
        "",
        {"prompt": "def f(", "seed": 9, "stop": ["\n"], "id": 7, "max_tokens": 200},
        {
            "prompt": "def f(",
            "temperature": 0,
            "logit_bias": {"12": -100.0},
            "max_tokens": 12,
            "verification": "invariant",
        },
        {
            "prompt": "def f(",
            "temperature": 0,
            "repeat_penalty": 5.0,
            "penalty_last_n": 64,
            "max_tokens": 12,
            "drafting": "argmax",
        },
    ]
    output = tmp_path / "out.jsonl"
    run(specdec, write_lines(tmp_path / "in.jsonl", lines), output)
    greedy, most_likely, stopped, biased, penalised = read(output)
    assert greedy["id"] == {"any": "thing"} and stopped["id"] == 7 and "id" not in biased
    assert greedy["text"] == most_likely["text"] and most_likely["stats"]["drafted"] == 0
    assert stopped["finish_reason"] == "stop" and "\n" not in stopped["text"] and stopped["seed"] == 9
    assert len({greedy["text"], biased["text"], penalised["text"]}) == 3


def test_deep_lines_and_brackets_in_text(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines: list[dict[str, Any] | str] = [nested(100), {"prompt": "[" * 300 + '"' + "\\" + "{" * 300, "id": "[" * 300}]
    run(specdec, write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl", "-n", 1)
    assert all("error" not in r for r in read(tmp_path / "out.jsonl"))


def test_null_is_not_given(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    names = (
        "id max_tokens temperature top_k top_p min_p repeat_penalty frequency_penalty presence_penalty penalty_last_n"
    )
    names += " logit_bias stop seed num_draft_tokens verification drafting"
    lines: list[dict[str, Any] | str] = [
        {"prompt": "def f(", **dict.fromkeys(names.split())},
        {"prompt": "def f(", "seed": 5},
    ]
    run(specdec, write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl", "--temp", "1.5")
    one, other = read(tmp_path / "out.jsonl")
    assert one["text"] == other["text"] and "id" not in one and one["seed"] == 5


def test_a_prompt_of_tokens(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    tokens = sd.Generator(n_threads=1).tokenize(PROMPTS[0])
    lines: list[dict[str, Any] | str] = [{"prompt": prompt, "seed": 1} for prompt in (tokens, PROMPTS[0], tokens[:-1])]
    run(specdec, write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl")
    texts = [r["text"] for r in read(tmp_path / "out.jsonl")]
    assert texts[0] == texts[1] != texts[2]


def test_a_prompt_far_too_long_is_an_error_of_its_line(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines: list[dict[str, Any] | str] = [{"prompt": PROMPTS[0]}, {"prompt": "x " * 5_000_000}, {"prompt": PROMPTS[1]}]
    run(specdec, write_lines(tmp_path / "in.jsonl", lines), tmp_path / "out.jsonl", code=1)
    results = read(tmp_path / "out.jsonl")
    assert [len(r.get("text", "")) > 0 for r in results] == [True, False, True]
    assert "line 2: the prompt has at least " in results[1]["error"]


def test_an_interrupted_run_goes_on_where_it_stopped(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines: list[dict[str, Any] | str] = [{"prompt": f"def f{i}(", "max_tokens": 60} for i in range(24)]
    prompts = write_lines(tmp_path / "in.jsonl", lines)
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    run(specdec, prompts, whole)
    part = tmp_path / "out.jsonl.part"
    command = [str(specdec), "generate", "--prompts", str(prompts), "--output", str(output), *OPTIONS]
    for number in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_for_lines(process, part, (part.read_text().count("\n") if part.exists() else 0) + 3)
        process.send_signal(number)
        _, errors = process.communicate()
        assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), errors
        assert not output.exists() and part.exists()
        if number == signal.SIGINT:
            assert "the same command resumes the run" in errors
    kept = part.read_text().count("\n") - 1
    assert 2 <= kept < 24
    with part.open("a") as file:
        file.write('{"index":23,"text":"cut sho')  # as after a crash in the middle of a write
    result = run(specdec, prompts, output)
    assert f"resuming: {kept} of 24 prompts already done" in result.stderr
    assert without_times(read(output)) == without_times(read(whole))
    assert not part.exists()


def test_a_run_without_a_seed_goes_on_with_its_own(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f("} for _ in range(12)])
    output, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    command = [
        str(specdec),
        "generate",
        "--prompts",
        str(prompts),
        "--output",
        str(output),
        "-k",
        "2",
        "-n",
        "40",
        "-t",
        "2",
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for_lines(process, part, 3)
    process.kill()
    process.wait()
    begun = [json.loads(line) for line in part.read_text().splitlines() if line.endswith("}")]
    seed = begun[0]["request"]["seed"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    results = read(output)
    assert [r["seed"] for r in results] == [_core.derived_seed(seed, i) for i in range(12)]
    assert all(results[r["index"]] == r for r in begun[1:])
    subprocess.run([*command, "--force"], check=True, capture_output=True, timeout=60)
    assert read(output)[0]["seed"] != seed
    assert not part.exists()


def test_a_line_tells_what_repeats_it(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Also if the seed was random and draft lengths depended on measured times (-k auto, the default)."""
    lines: list[dict[str, Any] | str] = [{"prompt": prompt} for prompt in PROMPTS[:3]]
    lines += [{"prompt": PROMPTS[0], "num_draft_tokens": 3}, {"prompt": PROMPTS[0], "verification": "token"}]
    command = [str(specdec), "generate", "--output", str(tmp_path / "out.jsonl"), "--prompts"]
    command += [str(write_lines(tmp_path / "in.jsonl", lines)), "-n", "24", "-t", "2"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    results = read(tmp_path / "out.jsonl")
    assert [r["verification"] for r in results] == ["invariant"] * 4 + ["token"]
    for prompt, result in zip(PROMPTS[:3], results[:3], strict=True):
        alone = [str(specdec), "generate", "--json", "-p", prompt, "-n", "24", "-s", str(result["seed"]), "-t", "1"]
        for options in ([], ["-k", "0"], ["-k", "5"]):
            run = subprocess.run([*alone, *options], check=True, capture_output=True, text=True, timeout=60)
            pieces = [json.loads(line) for line in run.stdout.splitlines()]
            assert "".join(piece["text"] for piece in pieces[:-1]) == result["text"]
            assert pieces[-1]["verification"] == "invariant" and pieces[-1]["seed"] == result["seed"]


def test_one_run_at_a_time(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f(", "max_tokens": 200} for _ in range(8)])
    output, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    command = [str(specdec), "generate", "--prompts", str(prompts), "--output", str(output), *OPTIONS]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for_lines(process, part, 1)
    assert "is being written by another run" in run(specdec, prompts, output, code=1).stderr
    assert process.wait(60) == 0 and len(read(output)) == 8


def test_a_run_that_left_nothing_is_no_hindrance(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f("}])
    output, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    missing = run(specdec, prompts, output, "-m", tmp_path / "none.gguf", code=1)
    assert "none.gguf" in missing.stderr and not part.exists()
    part.write_text('{"prompts":"other"}\n{"index":0,"te')
    run(specdec, prompts, output)
    assert len(read(output)) == 1


def test_the_prompts_are_never_written_over(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f("}])
    before = prompts.read_text()
    assert "would overwrite the prompts" in run(specdec, prompts, prompts, "--force", code=2).stderr
    as_part = prompts.rename(tmp_path / "out.jsonl.part")
    assert "would overwrite the prompts" in run(specdec, as_part, tmp_path / "out.jsonl", code=2).stderr
    assert as_part.read_text() == before


def test_prompts_from_standard_input(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [specdec, "generate", "--prompts", "-", "--output", tmp_path / "out.jsonl", *OPTIONS]
    lines = json.dumps({"prompt": "def f(", "logit_bias": {"12": "-inf"}}) + "\n"
    subprocess.run(list(map(str, command)), input=lines, text=True, check=True, capture_output=True, timeout=60)
    assert read(tmp_path / "out.jsonl")[0]["stats"]["tokens"] == 16


@pytest.fixture
def begun(specdec: pathlib.Path, tmp_path: pathlib.Path) -> Callable[[list[pathlib.Path]], list[str]]:
    """Starts and kills a run with copies of a target and a draft; returns its options, to resume it."""

    def begin(models: list[pathlib.Path]) -> list[str]:
        options = [word for flag, path in zip(["-m", "-md"], models, strict=False) for word in (flag, str(path))]
        prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": f"def f{i}(", "max_tokens": 100} for i in range(16)])
        output = tmp_path / "out.jsonl"
        command = [str(specdec), "generate", "--prompts", str(prompts), "--output", str(output), *OPTIONS, *options]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_for_lines(process, tmp_path / "out.jsonl.part", 2)
        process.kill()
        process.wait()
        return options

    return begin


@pytest.mark.parametrize("changed", ["target", "draft"])
def test_a_model_of_the_same_size_and_name_is_another(
    specdec: pathlib.Path,
    tmp_path: pathlib.Path,
    draft_path: pathlib.Path,
    begun: Callable[[list[pathlib.Path]], list[str]],
    changed: str,
) -> None:
    target, draft = tmp_path / "target.gguf", tmp_path / "draft.gguf"
    shutil.copy(draft_path, target)
    shutil.copy(draft_path, draft)
    options = begun([target, draft])
    with (tmp_path / f"{changed}.gguf").open("r+b") as file:  # the last tensor
        file.seek(-2000, os.SEEK_END)
        end = file.read()
        file.seek(-2000, os.SEEK_END)
        file.write(bytes(byte ^ 1 for byte in end))
    rejected = run(specdec, tmp_path / "in.jsonl", tmp_path / "out.jsonl", *options, code=1)
    assert "was written by a run with other prompts, models or options" in rejected.stderr


def test_a_model_elsewhere_is_the_same(
    specdec: pathlib.Path,
    tmp_path: pathlib.Path,
    draft_path: pathlib.Path,
    begun: Callable[[list[pathlib.Path]], list[str]],
) -> None:
    begun([draft_path])
    moved = tmp_path / "moved.gguf"
    shutil.copyfile(draft_path, moved)
    os.utime(moved, (1, 1))
    assert "already done" in run(specdec, tmp_path / "in.jsonl", tmp_path / "out.jsonl", "-m", moved).stderr


def test_results_of_another_run_are_not_mixed_in(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f("}])
    output, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    part.write_text('{"prompts":"other"}\n{"index":0,"text":"other"}\n')
    assert "was written by a run with other prompts" in run(specdec, prompts, output, code=1).stderr
    assert part.read_text().count("\n") == 2
    part.write_text("not ours\n")
    assert "was not written by an interrupted run" in run(specdec, prompts, output, code=1).stderr
    part.unlink()
    run(specdec, prompts, output)
    before = output.read_text()
    assert "exists already; name another file, or use --force" in run(specdec, prompts, output, code=1).stderr
    assert output.read_text() == before
    run(specdec, prompts, output, "--force", "-s", "99")
    assert output.read_text() != before


def make_special(kind: str, path: pathlib.Path) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))  # writing to it fails: full
        except PermissionError:
            pytest.skip("only root makes devices")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize("suffix", ["", ".part"])
def test_what_is_no_file_stays(specdec: pathlib.Path, tmp_path: pathlib.Path, kind: str, suffix: str) -> None:
    """Rejected before models load: the model here does not exist."""
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f("}])
    special = tmp_path / f"out.jsonl{suffix}"
    make_special(kind, special)
    before = special.stat()
    rejected = run(specdec, prompts, tmp_path / "out.jsonl", "--force", "-m", tmp_path / "none.gguf", code=1)
    assert f"{special} is not a regular file; give another --output" in rejected.stderr
    assert (special.stat().st_ino, special.stat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(tmp_path.iterdir()) == [prompts, special]


def test_a_link_is_followed(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "def f("}])
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    link.symlink_to(real)
    run(specdec, prompts, link, "--force")
    assert link.is_symlink() and len(read(real)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompts", "in.jsonl"], "--prompts and --output must be given together"),
        (["--output", "out.jsonl"], "--prompts and --output must be given together"),
        (["--prompts", "in.jsonl", "--output", "-"], "--output must be a file, not standard output"),
        (["--prompts", "in.jsonl", "--output", "out.jsonl", "-p", "x"], "give only one of -p, -f and --prompts"),
        (["--prompts", "in.jsonl", "--output", "out.jsonl", "-np", "0"], "-np"),
        (["--prompts", "in.jsonl", "--output", "out.jsonl", "--json"], "it cannot be combined with --json"),
        (["-p", "x", "-np", "4"], "-np and --force need --prompts"),
    ],
)
def test_wrong_usage(specdec: pathlib.Path, tmp_path: pathlib.Path, options: list[str], message: str) -> None:
    result = subprocess.run(
        [str(specdec), "generate", *options], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 2 and message in result.stderr


def test_files_that_cannot_be_used(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    missing = run(specdec, tmp_path / "none.jsonl", tmp_path / "out.jsonl", code=1)
    assert "none.jsonl: cannot be opened: No such file" in missing.stderr
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": "x"}])
    nowhere = run(specdec, prompts, tmp_path / "no" / "out.jsonl", code=1)
    assert "out.jsonl: there is no folder" in nowhere.stderr
    empty = write_lines(tmp_path / "empty.jsonl", [])
    run(specdec, empty, tmp_path / "nothing.jsonl")
    assert (tmp_path / "nothing.jsonl").read_text() == ""


def test_closed_standard_descriptors_leave_the_results_alone(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The results file would otherwise get descriptor 2, and progress lines would be written into it."""
    prompts = write_lines(tmp_path / "in.jsonl", [{"prompt": prompt} for prompt in PROMPTS * 4])
    run(specdec, prompts, tmp_path / "expected.jsonl")
    for closed in ("2>&-", "<&- >&- 2>&-", "0<&- 2>&-"):
        output = tmp_path / "out.jsonl"
        output.unlink(missing_ok=True)
        command = [specdec, "generate", "--prompts", prompts, "--output", output, *OPTIONS]
        shell = " ".join(map(str, command)) + " " + closed
        assert subprocess.run(["sh", "-c", shell], timeout=120, check=False).returncode == 0
        assert without_times(read(output)) == without_times(read(tmp_path / "expected.jsonl"))
