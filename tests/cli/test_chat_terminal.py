"""`specdec chat` as a user types: editing, several lines, pastes, history, and the state of the terminal afterwards.

The model answers with one token; what was asked is read from the history file.
"""

from __future__ import annotations

import json
import pathlib
import re
import signal
import socket
import termios
import time

import pytest
from tests.cli.terminal import Terminal

OPTIONS = ["-t", "1", "-n", "1", "--temp", "0"]


def ready(text: str) -> bool:
    return text.endswith("> ")


class Chat:
    """A chat at a pseudo-terminal whose history is below `folder`."""

    def __init__(self, specdec: pathlib.Path, folder: pathlib.Path, *options: object, **environment: str) -> None:
        self.file = folder / "specdec" / "chat.jsonl"
        self.terminal = Terminal(
            [specdec, "chat", *OPTIONS, *map(str, options)], env={"XDG_STATE_HOME": str(folder), **environment}
        )
        self.terminal.read_until(ready)

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *args: object) -> None:
        self.terminal.__exit__(None)

    def say(self, keys: str) -> None:
        """Types keys and Enter, and waits for the next prompt."""
        seen = len(self.terminal.text)
        self.terminal.type(keys + "\r")
        self.terminal.read_until(lambda text: text.endswith("\x1b[J> ") and "\r\n" in text[seen:])

    def asked(self) -> list[str]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("hello\x1b[D\x1b[D\x1b[DX", "heXllo"),
        ("ab\x7fc", "ac"),
        ("one two\x17three", "one three"),
        ("x\x01a\x05b", "axb"),
        ("gone\x15kept", "kept"),
        ("\x1b[200~first\r\nsecond\x1b[201~", "first\nsecond"),
        ("first\x1b\rsecond", "first\nsecond"),
        ("first\\\rsecond", "first\nsecond"),
        ('"""\rfirst\r\rsecond\r"""', "first\n\nsecond"),
        ("日本\x1b[D語", "日語本"),
    ],
)
def test_editing(specdec: pathlib.Path, tmp_path: pathlib.Path, keys: str, text: str) -> None:
    with Chat(specdec, tmp_path) as chat:
        chat.say(keys)
        assert chat.asked() == [text]


def test_a_long_paste_is_one_message(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pasted = "\n".join(f"line {i}: " + "x" * 100 for i in range(60))
    with Chat(specdec, tmp_path) as chat:
        chat.say(f"\x1b[200~{pasted}\x1b[201~")
        assert chat.asked() == [pasted]
        assert len(pasted) > 4096


def test_history_of_this_run_and_the_one_before(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path) as chat:
        chat.say("one")
        chat.say("two")
        chat.say("\x1b[A\x1b[A!")  # up, up
    with Chat(specdec, tmp_path) as chat:
        chat.say("\x1b[A\x1b[A\x1b[B?")
        chat.say("draft\x1b[A\x1b[B of mine")  # what was being typed comes back
        assert chat.asked() == ["one", "two", "one!", "one!?", "draft of mine"]


def test_no_history(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "--no-history") as chat:
        chat.say("secret")
        assert not chat.file.exists()


def test_a_history_that_cannot_be_written_is_said_once(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "specdec").write_text("not a folder")
    with Chat(specdec, tmp_path) as chat:
        chat.say("one")
        chat.say("two")
        assert chat.terminal.text.count("the history cannot be written; --no-history turns it off") == 1


def test_control_c_drops_the_text(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path) as chat:
        chat.terminal.type("dropped\x03")
        chat.terminal.read_until(lambda text: "(/quit or Ctrl-D exits)" in text and ready(text))
        chat.say("kept")
        assert chat.asked() == ["kept"]


def test_what_is_typed_during_an_answer_is_one_draft(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-n", 200, "-l", "0-inf") as chat:
        seen = len(chat.terminal.text)
        chat.terminal.type("first\rsecond\rthird\r")
        chat.terminal.read_until(lambda text: text.endswith("> second\r\r\n  third") and len(text) > seen + 200)
        assert chat.asked() == ["first"]
        chat.say("!")
        assert chat.asked() == ["first", "second\nthird!"]


@pytest.mark.parametrize("marked", [True, False])
def test_a_paste_during_an_answer_is_one_draft(specdec: pathlib.Path, tmp_path: pathlib.Path, marked: bool) -> None:
    """Longer than the terminal's queue, and a Ctrl-C behind it still stops the answer."""
    lines = [f"line {i}: " + "x" * 100 for i in range(80)]
    with Chat(specdec, tmp_path, "-n", 3000, "-c", 4096, "-l", "0-inf") as chat:
        seen = len(chat.terminal.text)
        chat.terminal.type("first\r")
        chat.terminal.read_until(lambda text: len(text) > seen + 300)
        pasted = "\r".join(lines)
        chat.terminal.type(f"\x1b[200~{pasted}\x1b[201~" if marked else pasted + "\r")
        chat.terminal.type("\x03")
        chat.terminal.read_until(lambda text: "(stopped; /more continues)" in text and "\n  line 79: xxx" in text)
        assert chat.asked() == ["first"]
        chat.say("?")
        assert chat.asked() == ["first", "\n".join(lines) + "?"]


def test_a_paste_while_the_models_load_is_one_draft(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pasted = "\n".join(f"line {i}: " + "x" * 100 for i in range(80))
    command = [specdec, "chat", *OPTIONS, "--no-mmap"]
    with Terminal(command, env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.read_until(lambda text: "\x1b[?2004h" in text)
        terminal.type(f"\x1b[200~{pasted}\x1b[201~")
        terminal.read_until(lambda text: "\n  line 79: xxx" in text)
        assert not (tmp_path / "specdec" / "chat.jsonl").exists()
        terminal.type("\r")
        terminal.read_until(lambda text: ready(text))
        assert json.loads((tmp_path / "specdec" / "chat.jsonl").read_text()) == pasted


def test_what_is_typed_behind_the_end_does_not_reach_the_shell(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    script = f"'{specdec}' chat {' '.join(OPTIONS)} --no-history; read -r line; echo \"read: $line\""
    with Terminal(["sh", "-c", script]) as terminal:
        terminal.read_until(ready)
        terminal.type("/quit\rrm -r folder\r" + "x" * 300 + "\r")
        terminal.read_until(lambda text: text.endswith("\x1b[?2004l"))
        time.sleep(0.5)
        terminal.type("later\n")
        assert terminal.read_until(lambda text: "read: " in text).endswith("read: later\r\n")


@pytest.mark.parametrize("end", ["\x03", signal.SIGTERM])
def test_the_end_while_a_model_is_waited_for(
    specdec: pathlib.Path, tmp_path: pathlib.Path, end: str | signal.Signals
) -> None:
    """From a hub that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hub:
        environment = {
            "HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}",
            "HF_HOME": str(tmp_path),
            "HOME": str(tmp_path),
        }
        with Terminal([specdec, "chat", "-hf", "owner/model"], env=environment) as terminal:
            terminal.read_until(lambda text: "\x1b[?2004h" in text)
            hub.accept()
            if isinstance(end, str):
                terminal.type(end)
            else:
                terminal.process.send_signal(end)
            text, code = terminal.read_all()
            assert code == -(signal.SIGINT if isinstance(end, str) else end)
            assert "\x1b[?2004l" in text and terminal.local_modes() & termios.ICANON


def test_a_line_longer_than_the_terminal(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path) as chat:
        chat.terminal.resize(20)
        chat.say("word " * 30)
        assert chat.asked() == ["word " * 30]


def test_what_is_said_at_the_start(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-c", 256) as chat:
        names = ["model    stdlib-target-f16.gguf", "draft    stdlib-draft-f16.gguf", "template none"]
        context = "context  256 tokens of the 512 that the model was trained for (-c)"
        assert "\r\n".join([*names, context, "This is a demonstration: "]) in chat.terminal.text
        assert "name a model: specdec chat -m FILE.gguf" in chat.terminal.text.replace("\r\n", " ")
        assert "\r\n/help lists the commands, Tab completes; " in chat.terminal.text


def test_a_model_that_is_named_is_no_demonstration(
    specdec: pathlib.Path, target_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with Chat(specdec, tmp_path, "-m", target_path) as chat:
        assert "/help lists the commands" in chat.terminal.text and "demonstration" not in chat.terminal.text


def test_a_long_question_shows_how_far_it_is_read(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A Ctrl-C meanwhile takes the question back."""
    with Chat(specdec, tmp_path, "-c", 32000) as chat:
        chat.say("short")
        seen = len(chat.terminal.text)  # a busy machine may show how far the short one is
        pasted = "def f(x):\n    return x\n" * 2000
        chat.terminal.type(f"\x1b[200~{pasted}\x1b[201~\r")
        text = chat.terminal.read_until(lambda text: re.search(r"reading: [1-9]", text[seen:]) is not None)
        steps = [int(count) for count in re.findall(r"reading: (\d+) of \d+ tokens\x1b\[K", text[seen:])]
        assert steps[0] == 0 and steps == sorted(steps)
        chat.terminal.type("\x03")
        chat.terminal.read_until(
            lambda text: re.search(r"\(stopped while reading: \d+ of \d{5,} tokens\)", text) is not None
        )
        chat.terminal.read_until(lambda text: text.endswith("return x\r\n  \x1b[K") or text.endswith("return x"))
        chat.terminal.type("\x03")  # drops the message, which was back on the line
        chat.terminal.read_until(ready)
        chat.say("/stats")  # of the answer before
        assert re.search(r"prompt   \d tokens \(", chat.terminal.text)
        chat.say(f"/save {tmp_path}/talk.json")
        assert [message["content"] for message in json.loads((tmp_path / "talk.json").read_text())][::2] == ["short"]


def test_an_answer_that_was_stopped_can_go_on(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-n", 3000, "-c", 4096, "-l", "0-inf") as chat:
        seen = len(chat.terminal.text)
        chat.terminal.type("import os\r")
        chat.terminal.read_until(lambda text: len(text) > seen + 300)
        chat.terminal.type("\x03")
        chat.terminal.read_until(lambda text: "(stopped; /more continues)" in text and ready(text))
        chat.say("/set max_tokens 5")
        seen = len(chat.terminal.text)
        chat.say("/more")
        assert "\r\n5 tokens, " in re.sub(r"\x1b\[\d*m", "", chat.terminal.text[seen:])
        assert not re.search(r"about [\d.]+ times plain", chat.terminal.text[seen:])  # too few to tell


def test_a_draft_that_does_not_pay_is_said_once(
    specdec: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The larger model drafts for the smaller one."""
    with Chat(specdec, tmp_path, "-m", draft_path, "-md", target_path, "--no-suffix", "-n", 100, "-l", "0-inf") as chat:
        chat.say("first")
        chat.say("second")
        assert chat.terminal.text.count("(drafts are off except for trials: would give at best ") == 1
        chat.say("/stats")
        assert "drafting off except for trials" in chat.terminal.text


@pytest.mark.parametrize("command", ["/clear", "/load {}"])
def test_every_conversation_warns_of_a_full_context(
    specdec: pathlib.Path, tmp_path: pathlib.Path, command: str
) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text("[]")
    with Chat(specdec, tmp_path, "-c", 128) as chat:
        for conversation in (1, 2):
            for _ in range(12):
                chat.say("one two three four five six")
            assert chat.terminal.text.count("tokens of context are used") == conversation
            chat.say(command.format(saved))


def test_a_message_that_was_stopped_can_be_sent_again(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-c", 32000) as chat:
        chat.terminal.type("\x1b[200~" + "word " * 9000 + "\x1b[201~\r")
        chat.terminal.read_until(lambda text: re.search(r"reading: [1-9]", text) is not None)
        chat.terminal.type("more\x03")
        chat.terminal.read_until(lambda text: "(stopped while reading: " in text and text.endswith("more"))
        chat.terminal.type("!")
        chat.terminal.read_until(lambda text: text.endswith("more!"))


def test_colours_are_explained_once_and_can_be_turned_off(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-n", 60, "-k", 3) as chat:
        chat.say("import os")
        chat.say("import sys")
        assert chat.terminal.text.count(": accepted drafts, ") == 1
        assert "\x1b[32m" in chat.terminal.text
        chat.say("/set color off")
        assert re.search(r"\r\ncolor +off\r\n", chat.terminal.text)
        seen = len(chat.terminal.text)
        chat.say("import re")
        assert "\x1b[32m" not in chat.terminal.text[seen:] and "\x1b[2m" not in chat.terminal.text[seen:]


def test_tab_completes_commands_options_and_files(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes of today.txt").write_text("import os")
    (tmp_path / "folder").mkdir()
    (tmp_path / ".hidden").write_text("")
    with Chat(specdec, tmp_path, HOME=str(tmp_path)) as chat:
        chat.terminal.type("/sy\t")
        chat.terminal.read_until(lambda text: text.endswith("/system "))
        chat.say("\x15/set max_t\t7")
        assert "max_tokens              7\r\n" in chat.terminal.text
        chat.say("/set verification in\t")
        assert "verification            invariant\r\n" in chat.terminal.text
        chat.terminal.type("/read ~/no\t")
        chat.terminal.read_until(lambda text: text.endswith("/read ~/notes of today.txt"))
        chat.say("")
        assert "today.txt, 3 tokens; it goes before your next" in chat.terminal.text.replace("\r\n", " ")
        chat.terminal.type("/save ~/fo\t")
        chat.terminal.read_until(lambda text: text.endswith("/save ~/folder/"))
        chat.say("\x15no command\tis a tab")
        assert chat.asked()[-1] == "no command\tis a tab"


def test_tab_lists_what_could_follow(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path) as chat:
        chat.terminal.type("/s\t")
        text = chat.terminal.read_until(lambda text: text.endswith("/s") and "/save" in text)
        assert re.search(r"> /s\r+\n/save +/set +/show +/stats +/system \r\n", text)
        chat.terminal.type("t\t")
        chat.terminal.read_until(lambda text: text.endswith("> /stats"))
        chat.terminal.type("\x15/zzz\t\t/")  # nothing begins so
        chat.terminal.read_until(lambda text: text.endswith("> /zzz/"))


def test_control_r_searches_what_was_typed(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path) as chat:
        for text in ("import os", "import sys", "def main():"):
            chat.say(text)
        chat.terminal.type("draft\x12impo")
        chat.terminal.read_until(lambda text: "> import sys\r\r\n(search: impo)" in text)
        chat.terminal.type("\x12")
        chat.terminal.read_until(lambda text: "> import os\r\r\n(search: impo)" in text)
        chat.terminal.type("zz")
        chat.terminal.read_until(lambda text: "> import os\r\r\n(not found: impozz)" in text)
        chat.terminal.type("\x07")  # Ctrl-G gives up
        chat.terminal.read_until(lambda text: text.endswith("> draft"))
        chat.terminal.type("\x15\x12sys\x05")  # Ctrl-E takes it
        chat.terminal.read_until(lambda text: text.endswith("> import sys"))
        chat.say("!")
        chat.terminal.type("\x12main")
        chat.say("")  # Enter sends it
        assert chat.asked() == ["import os", "import sys", "def main():", "import sys!", "def main():"]


def test_a_file_that_was_read_goes_before_the_message(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.py").write_text("import os\n")
    (tmp_path / "b.py").write_text("import sys\n")
    with Chat(specdec, tmp_path) as chat:
        chat.say(f"/read {tmp_path}/a.py")
        chat.say(f"/read {tmp_path}/b.py")
        chat.say("/show")
        assert "\r\nread     " in chat.terminal.text
        chat.say("first")
        chat.say("second")
        chat.say(f"/save {tmp_path}/talk.json")
        asked = [message["content"] for message in json.loads((tmp_path / "talk.json").read_text())][::2]
        assert asked == ["import os\n\nimport sys\n\nfirst", "second"]
        assert chat.asked()[2:] == ["/show", "first", "second", f"/save {tmp_path}/talk.json"]
        chat.say(f"/read {tmp_path}/a.py")
        chat.say("/clear")
        chat.say("/read")
        assert "/read needs the name of a file" in chat.terminal.text
        chat.say("/read missing.txt")
        assert "missing.txt: " in chat.terminal.text
        chat.say("/show")
        assert "before your next message" not in chat.terminal.text.split("(a new conversation)")[1]


def test_show(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-sys", "be brief") as chat:
        chat.say("import os")
        chat.say("/set top_k 7")
        seen = len(chat.terminal.text)
        chat.say("/show")
        shown = chat.terminal.text[seen:].replace("\r\n", "\n")
    assert "model    stdlib-target-f16.gguf\ndraft    stdlib-draft-f16.gguf\n" in shown
    assert re.search(r"\nused     [1-9]\d* tokens in 1 turn\nsystem   be brief\n", shown)
    changed = shown.split("\noptions that differ from the defaults:\n")[1].split("\n\r")[0].splitlines()
    assert [line.split()[0] for line in changed] == ["max_tokens", "temperature", "top_k"]  # of OPTIONS and /set


def test_set_shows_every_option_in_two_columns(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path) as chat:
        seen = len(chat.terminal.text)
        chat.say("/set")
        lines = chat.terminal.text[seen:].replace("\r\n", "\n").splitlines()
    rows = [line for line in lines if line and "> " not in line]
    assert len(rows) > 20
    assert [row for row in rows if not re.fullmatch(r"\w+ +\S.*", row)] == []
    assert len({len(re.match(r"\w+ +", row)[0]) for row in rows}) == 1  # type: ignore[index]


def rows(output: str) -> list[str]:
    """What a terminal shows of text in which words are erased from the end of a row."""
    shown = re.sub(r"\x1b\[\d*m", "", output)
    while match := re.search(r"\x1b\[(\d+)D\x1b\[K", shown):
        shown = shown[: match.start() - int(match[1])] + shown[match.end() :]
    return [line.rstrip() for line in shown.split("\r\n")]


def test_answers_are_broken_between_words(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = "one three seventeen thousands of characters and a-word-that-is-longer-than-a-whole-row-of-it and the end"
    code = "```\\n" + "code " * 12 + "\\n```"
    options = ["--chat-template", "chatml", "--grammar", f'root ::= "{words}\\n{code}"', "-n", 300, "--color", "off"]
    with Chat(specdec, tmp_path, *options) as chat:
        chat.terminal.resize(30)
        seen = len(chat.terminal.text)
        chat.say("go")
        # The prompt may have been drawn again for the new width before the answer.
        chat.terminal.read_until(lambda text: text[seen:].count("```") == 2 and ready(text))
        lines = rows(chat.terminal.text[seen:])
    start = lines.index("one three seventeen thousands")
    assert lines[start : start + 6] == [
        "one three seventeen thousands",
        "of characters and",
        "a-word-that-is-longer-than-a-whole-row-of-it and the end",
        "```",
        "code " * 11 + "code",
        "```",
    ]


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_is_broken_inside_a_word(
    specdec: pathlib.Path, target_path: pathlib.Path, columns: int, tmp_path: pathlib.Path
) -> None:
    """What the chat itself says, at the start and later."""
    command = [specdec, "chat", *OPTIONS, target_path, "-c", "300", "-n", "60", "-k", "3"]
    there = tmp_path / "there.txt"
    there.write_text("not a conversation")
    typed = ["import os", "/help", "/read missing.txt", "/show", "/more", "/nonsense", "/stats"]
    typed += [f"/save {there}", f"/load {there}", "/undo", "/undo"]
    typed += ["/system be brief", "/system", "/system none", "/set temp 0.5"]
    with Terminal(command, columns=columns, env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.read_until(ready)
        for text in typed:
            seen = len(terminal.text)
            terminal.type(text + "\r")
            terminal.read_until(
                lambda text, seen=seen: text.endswith("\x1b[J> ") and "\r\n" in text[seen:],  # type: ignore[misc]
            )
        lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal.text).replace("\r\n", "\n").split("\n")
    said = [line.rsplit("\r", 1)[-1] for line in lines]
    names = (str(there), "> /")  # a long name, and what was typed, are broken where the row ends
    assert [line for line in said if len(line) >= columns and not any(name in line for name in names)] == []
    assert "note: the draft is stdlib-head-f16.gguf," in " ".join(said)


def test_progress_fits_a_narrow_terminal(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, "-c", 32000) as chat:
        chat.terminal.resize(20)
        chat.terminal.type("\x1b[200~" + "word " * 9000 + "\x1b[201~\r")
        text = chat.terminal.read_until(lambda text: re.search(r"reading: [1-9]", text) is not None)
        steps = re.findall(r"\r(reading: [^\x1b]*)\x1b\[K", text)
        assert steps and all(len(step) < 20 for step in steps)


@pytest.mark.parametrize("end", ["\x04", "/quit\r", signal.SIGTERM])
def test_the_terminal_is_as_it_was(specdec: pathlib.Path, tmp_path: pathlib.Path, end: str | signal.Signals) -> None:
    with Chat(specdec, tmp_path) as chat:
        raw = chat.terminal.local_modes()
        if isinstance(end, str):
            chat.terminal.type(end)
        else:
            chat.terminal.process.send_signal(end)
        text, code = chat.terminal.read_all()
        assert code == (0 if isinstance(end, str) else -signal.SIGTERM)
        assert not raw & termios.ICANON
        assert chat.terminal.local_modes() & termios.ICANON
        if isinstance(end, str):
            assert re.search(r"\x1b\[\?2004l[^\x1b]*$", text)


def test_a_dumb_terminal_reads_lines(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Chat(specdec, tmp_path, TERM="dumb") as chat:
        chat.terminal.type("hello\n")
        chat.terminal.read_until(lambda text: ready(text) and "hello" in text)
        assert "\x1b" not in chat.terminal.text
        assert not chat.file.exists()
