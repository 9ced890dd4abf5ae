"""`specdec chat`, piped and at a terminal: prompts follow the model's template, answers equal those of `generate`."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import pytest
from tests.cli.terminal import Terminal
from tests.models.tiny_models import Vocabulary, make

CHATML = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GREEDY = ["--temp", "0", "-t", "1"]
NO_TEMPLATE = "note: this model has no chat template; it continues the text so far (--chat-template gives it one)\n"
LONG = ["-t", "1", "-n", "3000", "-c", "4096", "-l", "0-inf"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("chat") / "chat.gguf"
    return make("llama", seed=4, vocabulary=Vocabulary(chat_template=CHATML)).write(path)


def run(
    specdec: pathlib.Path, command: str, *arguments: object, stdin: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    line = [str(specdec), command, *map(str, arguments)]
    result = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, result.stderr
    return result


def shown(answer: str) -> str:
    return answer if answer.endswith("\n") else answer + "\n"


def test_turns_in_the_models_template(specdec: pathlib.Path, model: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 12, "-m", model, "-md", "none"]

    def answer(prompt: str) -> str:
        return run(specdec, "generate", *options, "-p", prompt).stdout

    def turn(role: str, text: str) -> str:
        return f"<|im_start|>{role}\n{text}<|im_end|>\n"

    begin = "<|im_start|>assistant\n"
    system = turn("system", "be brief")
    one = answer(system + turn("user", "hello") + begin)
    two = answer(system + turn("user", "hello") + turn("assistant", one) + turn("user", "ünd?") + begin)
    fresh = answer(system + turn("user", "ünd?") + begin)
    assert len({one, two, fresh}) == 3
    spoken = run(specdec, "chat", "--lines", *options, "-sys", "be brief", stdin="hello\n\nünd?\n/clear\nünd?")
    assert spoken.stdout == shown(one) + shown(two) + shown(fresh)
    assert spoken.stderr == "(a new conversation)\n"
    assert run(
        specdec, "chat", "--lines", *options, "-sys", "be brief", stdin="hello\r\n/quit\nnot read\n"
    ).stdout == shown(one)


def test_piped_input_is_one_message(specdec: pathlib.Path, model: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 12, "-m", model, "-md", "none"]
    prompt = "<|im_start|>user\none\n\n/stats\n<|im_end|>\n<|im_start|>assistant\n"
    expected = shown(run(specdec, "generate", *options, "-p", prompt.replace("\n<|im_end|>", "<|im_end|>")).stdout)
    for piped in ("one\n\n/stats\n", "one\n\n/stats"):
        result = run(specdec, "chat", *options, stdin=piped)
        assert (result.stdout, result.stderr) == (expected, "")
    assert run(specdec, "chat", *options, stdin="/stats").stderr == ""  # a message, not a command


def test_a_first_message_as_an_argument(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 12, "-m", model, "-md", "none"]
    piped = run(specdec, "chat", *options, stdin="hello")
    (tmp_path / "p.txt").write_text("hello\n")
    for source in (["-p", "hello"], ["-f", tmp_path / "p.txt"]):
        assert run(specdec, "chat", *options, *source).stdout == piped.stdout
    joined = run(specdec, "chat", *options, stdin="hello\n\nmore").stdout
    assert joined != piped.stdout
    for source in (["-p", "hello", "-st"], ["-p", "hello"], ["-f", tmp_path / "p.txt"]):
        assert run(specdec, "chat", *options, *source, stdin="more\n").stdout == joined, (
            "a question and what it is about"
        )
    (tmp_path / "more.txt").write_text("more\n")
    assert run(specdec, "chat", *options, "-p", "hello", "-f", tmp_path / "more.txt").stdout == joined
    then = run(specdec, "chat", *options, "-p", "hello", "--lines", stdin="more\n")
    assert then.stdout == run(specdec, "chat", *options, "--lines", stdin="hello\nmore\n").stdout


def test_a_context_that_fills_up_loses_the_oldest_turns(
    specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Several at once, so that the next turns reuse the cache. The system prompt stays, and /save writes all of it."""
    options = [*GREEDY, "-c", 800, "-n", 8, "-m", model, "-md", "none"]
    questions = [letter * 60 for letter in "uvwxyz"]
    lines = "\n".join([*(f"{question}\n/stats" for question in questions), f"/save {tmp_path / 'talk.json'}"])
    result = run(specdec, "chat", *options, "-sys", "be brief", "--lines", stdin=lines)
    left_out = re.findall(
        r"^\(the context of 800 tokens is full: the oldest (\d) turns are left out", result.stderr, re.MULTILINE
    )
    assert len(left_out) == 1 and int(left_out[0]) > 1, result.stderr
    reads = [
        tuple(map(int, pair)) for pair in re.findall(r"^prompt +(\d+) tokens \((\d+) of", result.stderr, re.MULTILINE)
    ]
    assert len(reads) == 6
    reused = [cached / tokens > 0.5 for tokens, cached in reads[1:]]
    assert reused.count(False) == 1, reads
    messages = json.loads((tmp_path / "talk.json").read_text())
    assert [message["content"] for message in messages[1::2]] == questions
    kept = [messages[0], *messages[1 + 2 * int(left_out[0]) : -1]]
    prompt = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in kept)
    alone = run(specdec, "generate", *options, "-p", prompt + "<|im_start|>assistant\n").stdout
    assert alone == messages[-1]["content"]


def test_commands(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines"]
    file = tmp_path / "talk.json"

    def say(*lines: str) -> tuple[str, str]:
        result = run(specdec, "chat", *options, stdin="\n".join(lines))
        return result.stdout, result.stderr

    one, two = (answer + "\n" for answer in say("hello", "more")[0].split("\n")[:2])
    assert say("hello", "/regen")[0] == one * 2
    assert say("hello", "other", "/undo", "more")[0].endswith(two)
    assert say("hello", "/clear", "hello")[0] == one * 2
    longer = run(specdec, "chat", *GREEDY, "-n", 12, "-m", model, "-md", "none", stdin="hello").stdout
    assert say("hello", "/more")[0].replace("\n", "") == longer.replace("\n", "")
    assert say("hello", f"/save {file}")[1] == f"(saved to {file})\n"
    assert json.loads(file.read_text()) == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": one[:-1]},
    ]
    assert say(f"/load {file}", "more")[0] == two
    begun = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "abc"}]
    (tmp_path / "begun.json").write_text(json.dumps(begun))
    prompt = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nabc"
    go_on = run(specdec, "generate", *options[:-1], "-p", prompt).stdout
    assert say(f"/load {tmp_path / 'begun.json'}", "/more")[0] == shown(go_on), "no BOS in the middle"
    system = run(specdec, "chat", *options, "-sys", "be brief", stdin="hello").stdout
    assert say("/system be brief", "hello")[0] == system
    shortened = say("/set max_tokens 2", "hello")[0]
    assert one.startswith(shortened[:-1]) and len(shortened) < len(one)
    listed = say("/help")[1]
    assert all(
        f"/{name}" in listed
        for name in ("help", "clear", "system", "regen", "more", "undo", "stats", "save", "load", "set")
    )
    assert "temperature" in say("/set")[1]
    assert say("/set max_tokens 2", "/set seed")[1].splitlines() == [
        "max_tokens              2",
        "seed                    none",
    ]


def test_options_of_a_conversation(specdec: pathlib.Path, model: pathlib.Path) -> None:
    """What was set can be taken back, what limits the text replaces what did so before, and a text may look like a
    number."""

    def said(*lines: str) -> list[str]:
        return run(
            specdec, "chat", *GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines", stdin="\n".join(lines)
        ).stderr.splitlines()

    def line(name: str, value: object) -> str:
        return f"{name:24}{value}"

    assert said("/set num_draft_tokens") == [line("num_draft_tokens", "auto")]
    for name, value, unset in (
        ("regex", "12", "none"),
        ("grammar", 'root ::= "a"', "none"),
        ("stop", "5", "none"),
        ("seed", "7", "-1"),
        ("logit_bias", '{"5": 1}', "none"),
    ):
        shown = "5: 1" if name == "logit_bias" else value
        expected = [line(name, shown), line(name, "none"), line(name, "none")]
        assert said(f"/set {name} {value}", f"/set {name} {unset}", f"/set {name}") == expected
    assert said("/set max_tokens -1", "/set max_tokens 3") == [line("max_tokens", 2**31 - 1), line("max_tokens", 3)]
    assert said("/set temperature 1", "/set temperature none") == [line("temperature", 1), line("temperature", 0)], (
        "as given"
    )
    assert said("/set temp 0.5", "/set top-k=3", "/set n 4", "/set --seed 7")[-1] == line("seed", 7)
    assert said("/set temp 0.5", "/set top-k=3", "/set n 4")[:3] == [
        line("temperature", 0.5),
        line("top_k", 3),
        line("max_tokens", 4),
    ]
    assert said("/set parameter temperature 0.5", "/set parameter num_predict 3", "/set parameter stop x") == [
        line("temperature", 0.5),
        line("max_tokens", 3),
        line("stop", "x"),
    ]
    assert any(shown.startswith("temperature ") for shown in said("/set parameter"))
    assert said("/set temp = 0.5", "/set temp= 0.5", "/set temp =0.5") == [line("temperature", 0.5)] * 3
    assert said('/set stop ["\\n", "a, b"]', "/set stop a, b") == [
        line("stop", '["\\n","a, b"]'),
        line("stop", "a, b"),
    ]
    assert said("/set temperatur 1", "/set schema {}", "/set system x", "/set tensor_splt 1") == [
        "there is no option temperatur; did you mean temperature?",
        "there is no option schema; did you mean json_schema?",
        "there is no option system; did you mean /system?",
        "there is no option tensor_splt; did you mean tensor_split?",
    ]
    assert said("/set color on", "/set color", "/set color blue") == [
        line("color", "on"),
        line("color", "on"),
        'color is "blue"; it must be on or off',
    ]
    both = said('/set grammar root ::= "a"', "/set regex b+", "/set grammar")
    assert both == [line("grammar", 'root ::= "a"'), line("regex", "b+"), line("grammar", "none")]
    result = run(
        specdec,
        "chat",
        *GREEDY,
        "-m",
        model,
        "-md",
        "none",
        "--lines",
        stdin="/set regex (\nhello\n/set regex 12\nhello\n",
    )
    assert result.stdout == "12\n" and "regex is not valid: " in result.stderr and "; /set changes it" in result.stderr


def test_a_command_that_is_nearly_one(specdec: pathlib.Path, model: pathlib.Path) -> None:
    """A word with a slash before it is a command, if it is like one; else the message goes to the model."""

    def said(text: str) -> tuple[str, str]:
        result = run(specdec, "chat", *GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines", stdin=text)
        return result.stdout, result.stderr

    assert said("/sett temperature 1") == ("", "unknown command /sett; did you mean /set?\n")
    assert said("/hel") == ("", "unknown command /hel; did you mean /help?\n")
    assert said("/quit now\nhello") == ("", "")
    answer, notes = said("/etc/hosts has what?")
    assert answer != "" and notes == ""


def test_a_name_with_the_home_folder(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [str(specdec), "chat", *GREEDY, "-n", "6", "-m", str(model), "--lines"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    for line in ("hello\n/save ~/talk.json", "/load ~/talk.json\n/regen"):
        result = subprocess.run(
            command, input=line, capture_output=True, text=True, timeout=60, env=environment, check=True
        )
        assert f"{tmp_path}/talk.json" in result.stderr and len(result.stdout.splitlines()) == 1


def test_system_prompts(specdec: pathlib.Path, model: pathlib.Path) -> None:
    """Without a text the command shows it, and the conversation goes on."""
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines", "-sys", "be brief"]

    def say(*lines: str) -> tuple[str, list[str]]:
        result = run(specdec, "chat", *options, stdin="\n".join(lines))
        return result.stdout, result.stderr.splitlines()

    assert say("hello", "/system", "more") == (say("hello", "more")[0], ["be brief"])
    without, notes = say("/system none", "/system", "hello")
    assert notes == ["(no system prompt from now on)", "(there is no system prompt)"]
    assert without == run(specdec, "chat", *options[:-2], stdin="hello").stdout
    # A new one is that of the whole conversation, as if it had been there from the start.
    changed, notes = say("hello", "/system be long", "/regen", "more")
    kept = run(specdec, "chat", *options[:-1], "be long", stdin="hello\nmore").stdout
    assert changed == say("hello")[0] + kept
    assert notes == ["(this is the system prompt from now on; /clear starts a new conversation)"]


def test_a_file_is_not_overwritten_by_chance(
    specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "keep.py").write_text("import os\n")
    path = tmp_path / "keep.py"

    def said(*lines: str) -> list[str]:
        result = run(specdec, "chat", *GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines", stdin="\n".join(lines))
        return result.stderr.splitlines()

    refused = f"{path}: exists already; name another file, or /save -f {path} replaces it"
    assert said("hello", f"/save {path}") == [refused]
    assert path.read_text() == "import os\n"
    assert said("hello", f"/save -f {path}", "more", f"/save {path}") == [f"(saved to {path})"] * 2
    assert len(json.loads(path.read_text())) == 4
    assert said(f"/load {path}", "more", f"/save {path}") == [f"(loaded {path}: 2 turns)", f"(saved to {path})"]
    assert len(json.loads(path.read_text())) == 6


def test_a_complete_answer_has_no_more(specdec: pathlib.Path, model: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 20, "-m", model, "-md", "none", "--lines", "--grammar", 'root ::= "done"']
    result = run(specdec, "chat", *options, stdin="hello\n/more\n")
    assert result.stdout == "done\n"
    assert result.stderr == "the answer is complete; /regen gives another one\n"


def test_a_single_turn(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none"]
    (tmp_path / "system.txt").write_text("be brief\n")
    one = run(specdec, "chat", *options, "-sys", "be brief", stdin="hello").stdout
    for first in (["-p", "hello"], []):
        lines = "more\n" if first else "hello\nmore\n"
        result = run(specdec, "chat", *options, "-sysf", tmp_path / "system.txt", "-st", "--lines", *first, stdin=lines)
        assert result.stdout == one


def test_a_question_at_a_terminal_and_the_answer_in_a_file(
    specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """What the terminal might say further is not waited for."""
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none"]
    expected = run(specdec, "chat", *options, stdin="hello").stdout
    primary, secondary = pty.openpty()
    try:
        command = [str(specdec), "chat", *map(str, options), "-p", "hello"]
        result = subprocess.run(command, stdin=secondary, capture_output=True, text=True, timeout=60, check=True)
    finally:
        os.close(secondary)
        os.close(primary)
    assert result.stdout == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/regen", "there is no answer yet"),
        ("/more", "there is no answer yet"),
        ("/undo", "there is nothing to undo"),
        ("/stats", "there is no answer yet"),
        ("/save", "/save needs the name of a file"),
        ("/save -f", "/save needs the name of a file"),
        ("/save no/such.json", "no/such.json: there is no folder "),
        ("/load no/such.json", "no/such.json"),
        ("/set temperature hot", "temperature"),
        ("/set temperature -1", "temperature"),
        ("/set nonsense 1", "there is no option nonsense; /set shows all"),
        ("/set n_ctx 512", "n_ctx can only be set when a chat starts: specdec chat -c N"),
        ("/set parameter num_ctx 512", "n_ctx can only be set when a chat starts: specdec chat -c N"),
        ("/foo", "unknown command /foo; /help lists the commands"),
    ],
)
def test_commands_that_cannot_be_done(specdec: pathlib.Path, model: pathlib.Path, line: str, message: str) -> None:
    """The conversation goes on."""
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines"]
    result = run(specdec, "chat", *options, stdin=f"{line}\nhello")
    assert message in result.stderr
    assert result.stdout == run(specdec, "chat", *options, stdin="hello").stdout


def test_a_file_that_ends_with_a_question(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """/regen answers it; /save writes no answer that was never given."""
    file, copy = tmp_path / "open.json", tmp_path / "copy.json"
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    file.write_text(json.dumps(messages))
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none"]
    lines = f"/load {file}\n/save {copy}\n/regen"
    result = run(specdec, "chat", *options, "--lines", stdin=lines)
    assert f"(loaded {file}: 1 turn and a system prompt; /regen answers the last question)\n" in result.stderr
    assert json.loads(copy.read_text()) == messages
    assert result.stdout == run(specdec, "chat", *options, "-sys", "be brief", stdin="hello").stdout


@pytest.mark.parametrize(
    "text", ["not json", "{}", '[{"role": "user"}]', '[{"role": "assistant", "content": "x"}]', "[1]"]
)
def test_a_file_that_is_no_conversation(
    specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path, text: str
) -> None:
    (tmp_path / "bad.json").write_text(text)
    options = [*GREEDY, "-n", 6, "-m", model, "-md", "none", "--lines"]
    result = run(specdec, "chat", *options, stdin=f"hello\n/load {tmp_path / 'bad.json'}\nmore")
    assert result.stderr.startswith(f"{tmp_path / 'bad.json'}: ")
    assert result.stdout == run(specdec, "chat", *options, stdin="hello\nmore").stdout


def test_the_conversation_stays_in_the_cache(specdec: pathlib.Path, model: pathlib.Path) -> None:
    result = run(
        specdec,
        "chat",
        "--lines",
        *GREEDY,
        "-n",
        12,
        "-m",
        model,
        "-md",
        "none",
        stdin="hello\n/stats\nmore\n/stats\n/foo\n",
    )
    first, second = [line for line in result.stderr.splitlines() if line.startswith("prompt ")]
    assert "(0 of them cached)" in first
    read, cached = int(first.split()[1]), int(second.split("(")[1].split()[0])
    assert cached >= read
    assert "unknown command /foo; /help lists the commands" in result.stderr


def test_a_model_without_a_template_continues_the_text(specdec: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 16]
    one = run(specdec, "generate", *options, "-p", "import os").stdout
    two = run(specdec, "generate", *options, "-p", f"import os{one}\nclass A:").stdout
    result = run(specdec, "chat", "--lines", *options, stdin="import os\nclass A:\n")
    assert result.stdout == shown(one) + shown(two)
    assert result.stderr == NO_TEMPLATE


def test_an_empty_template_is_none(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = make("llama", seed=4, vocabulary=Vocabulary(chat_template="")).write(tmp_path / "empty.gguf")
    options = [*GREEDY, "-n", 12, "-m", path, "-md", "none"]
    result = run(specdec, "chat", "--lines", *options, stdin="hello\n")
    assert result.stderr == NO_TEMPLATE
    assert result.stdout == shown(run(specdec, "generate", *options, "-p", "hello").stdout)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{% broken", "Unknown statement: broken"),
        ("{{ raise_exception('no users, please') }}", "no users, please (line 1, column 19)"),
        (
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "the template or a value of it is nested too deeply (line 1, column 20)",
        ),
    ],
)
def test_a_template_that_cannot_be_used(
    specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path, template: str, problem: str
) -> None:
    path = make("llama", seed=4, vocabulary=Vocabulary(chat_template=template)).write(tmp_path / "odd.gguf")
    rejected = run(specdec, "chat", "-m", path, "-md", "none", "-t", 1, code=1)  # before any line came
    assert rejected.stderr == f"specdec chat: {path}: the chat template: {problem}\n"
    options = [*GREEDY, "-n", 12]
    named = run(
        specdec,
        "chat",
        "--lines",
        *options,
        "-m",
        path,
        "-md",
        "none",
        "--chat-template",
        "chatml",
        stdin="hello\nmore\n",
    )
    own = run(specdec, "chat", "--lines", *options, "-m", model, "-md", "none", stdin="hello\nmore\n")
    assert (named.stdout, named.stderr) == (own.stdout, "")


def test_named_templates(specdec: pathlib.Path, model: pathlib.Path) -> None:
    wrong = run(specdec, "chat", "--chat-template", "chatlm", code=2).stderr
    names = re.sub(r".* or one of (.*), got \"chatlm\"\n.*", r"\1", wrong, flags=re.DOTALL).split(", ")
    assert {"chatml", "llama3", "gemma"} < set(names)
    listed = " ".join(run(specdec, "chat", "--help-all").stdout.split())
    assert ", ".join(names) in listed
    options = ["-m", model, "-md", "none", *GREEDY, "-n", 4, "-c", 2048, "--chat-template"]
    prompts = {
        name: run(specdec, "chat", "--lines", *options, name, stdin="hello\n/stats\n")
        for name in ("chatml", "llama3", "gemma")
    }
    assert len({result.stderr.split(" in ")[0] for result in prompts.values()}) == 3


def test_a_template_of_ones_own(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[answer]"
    options = ["-m", model, "-md", "none", *GREEDY, "-n", 8]
    expected = shown(run(specdec, "generate", *options, "-p", "[user] hello\n[answer]").stdout)
    (tmp_path / "t.jinja").write_text(other + "\n")
    for choice in (
        ["--chat-template", other],
        ["--chat-template-file", tmp_path / "t.jinja"],
        ["--jinja", f"--chat-template={other}"],
    ):
        assert run(specdec, "chat", "--lines", *options, *choice, stdin="hello\n").stdout == expected
    system = "[system] short\n[user] hello\n[answer]"
    spoken = run(
        specdec, "chat", "--lines", *options, "--chat-template", other, "--system-prompt", "short", stdin="hello\n"
    )
    assert spoken.stdout == shown(run(specdec, "generate", *options, "-p", system).stdout)
    (tmp_path / "no.jinja").write_text("nothing in it")
    for wrong in (tmp_path / "no.jinja", tmp_path / "missing.jinja"):
        assert (
            str(wrong)
            in run(specdec, "chat", *options, "--chat-template-file", wrong, code=1 + (wrong.exists())).stderr
        )
    (tmp_path / "bad.jinja").write_text("{% bad %}")
    message = run(specdec, "chat", *options, "--chat-template-file", tmp_path / "bad.jinja", code=1).stderr
    assert message == f"specdec chat: {tmp_path / 'bad.jinja'}: the chat template: Unknown statement: bad\n"


@pytest.mark.parametrize("template", [[], ["--chat-template", "chatml"]])
def test_special_tokens_in_a_line_are_text(specdec: pathlib.Path, tmp_path: pathlib.Path, template: list[str]) -> None:
    control = {280: "<|im_start|>", 281: "<|im_end|>"}
    vocabulary = Vocabulary(chat_template=CHATML, renamed=control, control=tuple(control))
    path = make("llama", seed=4, vocabulary=vocabulary).write(tmp_path / "control.gguf")

    def prompt_tokens(line: str) -> int:
        text = run(
            specdec,
            "chat",
            "--lines",
            *GREEDY,
            "-n",
            4,
            "-m",
            path,
            "-md",
            "none",
            *template,
            stdin=f"{line}\n/stats\n",
        ).stderr
        return int(text.split("prompt ")[1].split()[0])

    assert prompt_tokens("<|im_end|>") == prompt_tokens("1234567890"), "one token for each byte"


def test_a_conversation_that_is_too_long(specdec: pathlib.Path, model: pathlib.Path) -> None:
    result = run(
        specdec,
        "chat",
        "--lines",
        *GREEDY,
        "-c",
        64,
        "-n",
        4,
        "-m",
        model,
        stdin=f"{'x' * 100}\n/clear\n{'y' * 100}\nhi\n",
    )
    sizes = [
        int(size)
        for size in re.findall(r"tokens, the context holds 64; start with -c (\d+), or shorten", result.stderr)
    ]
    assert len(sizes) == 2
    options = [*GREEDY, "-c", sizes[0], "-n", 4, "-m", model, "-md", "none"]
    assert run(specdec, "chat", *options, stdin="x" * 100).stdout != ""
    too_long = run(specdec, "chat", "--lines", *GREEDY, "-c", 64, "-m", model, "-md", "none", stdin="x" * 100_000)
    assert "; the model was trained for " in too_long.stderr and too_long.stdout == ""
    assert result.stdout != "", "what did not fit is not part of the conversation"


def test_no_input(specdec: pathlib.Path) -> None:
    assert run(specdec, "chat", "-t", 1).stdout == ""
    assert "unexpected argument" in run(specdec, "chat", "hello", code=2).stderr


def test_an_interrupt_ends_the_answer_only(specdec: pathlib.Path) -> None:
    with Terminal([specdec, "chat", *LONG, "-k", "3"]) as terminal:  # "auto" may draft nothing
        terminal.read_until(lambda text: text.endswith("> "))
        for count in (1, 2):
            start = len(terminal.text)
            terminal.type("import os\n")
            terminal.read_until(lambda text, start=start: len(text) > start + 200)  # type: ignore[misc]
            terminal.type("\x03")
            terminal.read_until(
                lambda text, start=start: "(stopped" in text[start:] and text.endswith("> "),  # type: ignore[misc]
            )
            assert terminal.process.poll() is None, count
        terminal.type("\x03")
        terminal.read_until(lambda text: "(/quit or Ctrl-D exits)" in text and text.endswith("> "))
        terminal.type("/stats\n")
        terminal.read_until(lambda text: "tokens per call" in text and text.endswith("> "))
        terminal.type("\x04")
        text, code = terminal.read_all()
    assert code == 0
    assert "\x1b[32m" in text


def test_an_interrupt_ends_it_whenever_it_comes(specdec: pathlib.Path) -> None:
    """Also while it loads. Standard input stays open without data, so that the program would otherwise wait."""
    for milliseconds in (5, 10, 20, 30, 40, 60, 80, 120, 200, 400):
        command = [str(specdec), "chat", "--lines", "--no-mmap", "-t", "1"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(timeout=20)
            finally:
                process.kill()
        assert code in (-signal.SIGINT, 130), f"after {milliseconds} ms"  # to a shell they are the same


def test_an_interrupt_ends_a_pipe(specdec: pathlib.Path) -> None:
    command = [str(specdec), "chat", "--lines", *LONG]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"import os\nimport sys\n")
        process.stdin.flush()
        process.stdout.read(100)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert errors.endswith(b"specdec chat: interrupted\n")
