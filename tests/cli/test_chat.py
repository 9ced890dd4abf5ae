"""`specdec chat`, piped and at a terminal: prompts follow the model's template, answers equal those of `generate`."""

from __future__ import annotations

import pathlib
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
    options = [*GREEDY, "-n", 12, "-m", model]

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
    spoken = run(specdec, "chat", *options, "-sys", "be brief", stdin="hello\n\nünd?\n/clear\nünd?")
    assert spoken.stdout == shown(one) + shown(two) + shown(fresh)
    assert spoken.stderr == ""
    assert run(specdec, "chat", *options, "-sys", "be brief", stdin="hello\r\n/quit\nnot read\n").stdout == shown(one)


def test_the_conversation_stays_in_the_cache(specdec: pathlib.Path, model: pathlib.Path) -> None:
    result = run(specdec, "chat", *GREEDY, "-n", 12, "-m", model, stdin="hello\n/stats\nmore\n/stats\n/foo\n")
    first, second = [line for line in result.stderr.splitlines() if line.startswith("prompt ")]
    assert "(0 of them cached)" in first
    read, cached = int(first.split()[1]), int(second.split("(")[1].split()[0])
    assert cached >= read
    assert "unknown command /foo; the commands are /clear, /stats and /quit" in result.stderr


def test_a_model_without_a_template_continues_the_text(specdec: pathlib.Path) -> None:
    options = [*GREEDY, "-n", 16]
    one = run(specdec, "generate", *options, "-p", "import os").stdout
    two = run(specdec, "generate", *options, "-p", f"import os{one}\nclass A:").stdout
    result = run(specdec, "chat", *options, stdin="import os\nclass A:\n")
    assert result.stdout == shown(one) + shown(two)
    assert result.stderr == NO_TEMPLATE


def test_an_empty_template_is_none(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = make("llama", seed=4, vocabulary=Vocabulary(chat_template="")).write(tmp_path / "empty.gguf")
    options = [*GREEDY, "-n", 12, "-m", path]
    result = run(specdec, "chat", *options, stdin="hello\n")
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
    rejected = run(specdec, "chat", "-m", path, "-t", 1, code=1)  # before any line came
    assert rejected.stderr == f"specdec chat: {path}: the chat template: {problem}\n"
    options = [*GREEDY, "-n", 12]
    named = run(specdec, "chat", *options, "-m", path, "--chat-template", "chatml", stdin="hello\nmore\n")
    own = run(specdec, "chat", *options, "-m", model, stdin="hello\nmore\n")
    assert (named.stdout, named.stderr) == (own.stdout, "")


def test_named_templates(specdec: pathlib.Path, model: pathlib.Path) -> None:
    wrong = run(specdec, "chat", "--chat-template", "chatlm", code=2).stderr
    names = re.sub(r".* or one of (.*), got \"chatlm\"\n.*", r"\1", wrong, flags=re.DOTALL).split(", ")
    assert {"chatml", "llama3", "gemma"} < set(names)
    listed = " ".join(run(specdec, "chat", "--help").stdout.split())
    assert ", ".join(names) in listed
    options = ["-m", model, *GREEDY, "-n", 4, "-c", 2048, "--chat-template"]
    prompts = {name: run(specdec, "chat", *options, name, stdin="hello\n/stats\n") for name in ("chatml", "llama3", "gemma")}
    assert len({result.stderr.split(" in ")[0] for result in prompts.values()}) == 3


def test_a_template_of_ones_own(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[answer]"
    options = ["-m", model, *GREEDY, "-n", 8]
    expected = shown(run(specdec, "generate", *options, "-p", "[user] hello\n[answer]").stdout)
    (tmp_path / "t.jinja").write_text(other + "\n")
    for choice in (
        ["--chat-template", other],
        ["--chat-template-file", tmp_path / "t.jinja"],
        ["--jinja", f"--chat-template={other}"],
    ):
        assert run(specdec, "chat", *options, *choice, stdin="hello\n").stdout == expected
    system = "[system] short\n[user] hello\n[answer]"
    spoken = run(specdec, "chat", *options, "--chat-template", other, "--system-prompt", "short", stdin="hello\n")
    assert spoken.stdout == shown(run(specdec, "generate", *options, "-p", system).stdout)
    (tmp_path / "no.jinja").write_text("nothing in it")
    for wrong in (tmp_path / "no.jinja", tmp_path / "missing.jinja"):
        assert str(wrong) in run(specdec, "chat", *options, "--chat-template-file", wrong, code=1 + (wrong.exists())).stderr
    (tmp_path / "bad.jinja").write_text("{% bad %}")
    message = run(specdec, "chat", *options, "--chat-template-file", tmp_path / "bad.jinja", code=1).stderr
    assert message == f"specdec chat: {tmp_path / 'bad.jinja'}: the chat template: Unknown statement: bad\n"


@pytest.mark.parametrize("template", [[], ["--chat-template", "chatml"]])
def test_special_tokens_in_a_line_are_text(specdec: pathlib.Path, tmp_path: pathlib.Path, template: list[str]) -> None:
    control = {280: "<|im_start|>", 281: "<|im_end|>"}
    vocabulary = Vocabulary(chat_template=CHATML, renamed=control, control=tuple(control))
    path = make("llama", seed=4, vocabulary=vocabulary).write(tmp_path / "control.gguf")

    def prompt_tokens(line: str) -> int:
        text = run(specdec, "chat", *GREEDY, "-n", 4, "-m", path, *template, stdin=f"{line}\n/stats\n").stderr
        return int(text.split("prompt ")[1].split()[0])

    assert prompt_tokens("<|im_end|>") == prompt_tokens("1234567890"), "one token for each byte"


def test_a_conversation_that_is_too_long(specdec: pathlib.Path, model: pathlib.Path) -> None:
    result = run(specdec, "chat", *GREEDY, "-c", 64, "-n", 4, "-m", model, stdin=f"{'x' * 100}\n/clear\n{'y' * 100}\nhi\n")
    assert result.stderr.count("/clear starts a new conversation") >= 2
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
            terminal.read_until(lambda text: text.endswith("\r\n> "))
            assert terminal.process.poll() is None, count
        terminal.type("\x03")
        terminal.read_until(lambda text: text.endswith("(/quit or Ctrl-D exits)\r\n> "))
        terminal.type("/stats\n")
        terminal.read_until(lambda text: "tokens per call" in text and text.endswith("> "))
        terminal.type("\x04")
        text, code = terminal.read_all()
    assert code == 0
    assert "\x1b[32m" in text


def test_an_interrupt_ends_it_whenever_it_comes(specdec: pathlib.Path) -> None:
    """Also while it loads. Standard input stays open without data, so that the program would otherwise wait."""
    for milliseconds in (5, 10, 20, 30, 40, 60, 80, 120, 200, 400):
        command = [str(specdec), "chat", "--no-mmap", "-t", "1"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(timeout=20)
            finally:
                process.kill()
        assert code in (-signal.SIGINT, 130), f"after {milliseconds} ms"  # to a shell they are the same


def test_an_interrupt_ends_a_pipe(specdec: pathlib.Path) -> None:
    command = [str(specdec), "chat", *LONG]
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
