"""Random files for /load of `specdec chat`: conversations, odd ones, and files that are none.

    python -m tests.cli.chat_files [--count 2000] [--seed 1] [--record] [--specdec build/default/specdec]

Each is loaded into a chat that has loaded others before, and shown, counted, continued or saved. No file ends the chat;
a conversation is loaded and saved as it is; every other file leaves the conversation before it, with a message that
names the file. With --record, files without a finding are added to tests/figures.jsonl, for docs/security.md.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import Any

from tests import figures
from tests.models.tiny_models import Vocabulary, make
from tests.server.odd_bodies import Maker

TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
AT_ONCE = 200  # files of one chat
LAST = "no file"  # that it is asked for at last; then it still answers
WORDS = [
    "a",
    " ",
    "def f(",
    "\n",
    "<|user|>",
    "<|im_end|>",
    "é",
    "🙂",
    "\u2028",
    "\x1b[31m",
    "\x00",
    "\ud800",
    "q" * 700,
]


class Files:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"chat file {seed}")
        self.maker = Maker(seed)

    def text(self) -> str:
        return "".join(self.random.choices(WORDS, k=self.random.choice([0, 1, 1, 2, 4])))

    def conversation(self) -> list[Any]:
        """A sound one, perhaps with its last question open."""
        messages = [{"role": "system", "content": self.text()}] if self.random.random() < 0.3 else []
        turns = self.random.choice([0, 1, 1, 2, 3, 20])
        for i in range(turns):
            messages.append({"role": "user", "content": self.text()})
            if i < turns - 1 or self.random.random() < 0.7:
                messages.append({"role": "assistant", "content": self.text() or "a"})
        return messages

    def file(self) -> bytes:
        kind = self.random.random()
        value: Any = self.conversation()
        if kind < 0.15:
            value = self.maker.some(self.maker.message, 7)
        elif kind < 0.3 and value:
            value[self.random.randrange(len(value))] = self.maker.odd(self.maker.message())
        elif kind < 0.4:
            value = self.maker.anything()
        data = json.dumps(value, ensure_ascii=self.random.random() < 0.5).encode("utf-8", "surrogatepass")
        if kind > 0.85:
            at = self.random.randrange(len(data) + 1)
            odd = [b"", b"[", b"\xff", b"\0", b"]" * 3, b"[" * 5000, b"1e999", b"\xef\xbb\xbf"]
            data = data[:at] + self.random.choice(odd) + data[at + self.random.choice([0, 1, 9, len(data)]) :]
        return data


def is_text(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= one <= "\udfff" for one in value)


def kept(data: bytes) -> list[dict[str, str]] | None:
    """The conversation that a file holds, as it is saved; None: none. A surrogate by itself is no text."""
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    system, turns = "", list[list[str]]()
    for message in value:
        if not isinstance(message, dict):
            return None
        role, content = message.get("role"), message.get("content")
        if not is_text(role) or not is_text(content):
            return None
        if role == "system" and not turns and not system:
            system = content
        elif role == "user":
            turns.append([content, ""])
        elif role == "assistant" and turns and not turns[-1][1]:
            turns[-1][1] = content
        else:
            return None
    messages = [{"role": "system", "content": system}] if system else []
    for question, answer in turns:
        messages.append({"role": "user", "content": question})
        if answer:
            messages.append({"role": "assistant", "content": answer})
    return messages


def check(specdec: pathlib.Path, model: pathlib.Path, folder: pathlib.Path, seeds: range) -> list[str]:
    """Findings."""
    lines, files = [], dict[int, bytes]()
    for seed in seeds:
        files[seed] = Files(seed).file()
        (folder / f"{seed}.json").write_bytes(files[seed])
        between = random.Random(f"between {seed}").choice(["/show", "/stats", "/undo", "/more", "/regen", "hello", ""])
        lines += [f"/load {folder / f'{seed}.json'}", f"/save -f {folder / f'{seed}.saved'}", between]
    command = [specdec, "chat", "--lines", "-t", "1", "-n", "2", "--temp", "0", "-c", "256", "-m", model, "-md", "none"]
    run = subprocess.run(
        list(map(str, command)),
        input="\n".join([*lines, f"/load {folder / LAST}", "/show"]).encode(),
        capture_output=True,
        timeout=900,
        check=False,
    )
    shown = run.stderr.decode("utf-8", "replace")
    findings = []
    if run.returncode not in (0, 1) or "\nused  " not in shown.rpartition(LAST)[2]:
        findings.append(f"{seeds}: exit code {run.returncode}: {shown[-300:]!r}")
    for seed, data in files.items():
        path, saved = folder / f"{seed}.json", folder / f"{seed}.saved"
        expected = kept(data)
        if f"(loaded {path}:" in shown:
            if expected is None:
                findings.append(f"{seed}: loaded: {data[:300]!r}")
            elif not saved.exists() or json.loads(saved.read_bytes()) != expected:
                findings.append(f"{seed}: not saved as it was: {data[:300]!r}")
        elif expected is not None:
            findings.append(f"{seed}: not loaded: {data[:300]!r}")
        elif str(path) not in shown.replace(f"(loaded {path}:", ""):
            findings.append(f"{seed}: rejected without its name")
        path.unlink()
        saved.unlink(missing_ok=True)
    return findings


def check_all(specdec: pathlib.Path, seeds: range) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = make("llama", seed=4, vocabulary=Vocabulary(chat_template=TEMPLATE)).write(folder / "chat.gguf")
        found = []
        for first in range(seeds.start, seeds.stop, AT_ONCE):
            found += check(specdec, model, folder, range(first, min(first + AT_ONCE, seeds.stop)))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="of the first file; the next ones follow")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--specdec", type=pathlib.Path, default=pathlib.Path("build/default/specdec"))
    options = parser.parse_args()
    findings = check_all(options.specdec.resolve(), range(options.seed, options.seed + options.count))
    print("\n".join(findings[:20]))
    print(f"{options.count:,} files, {len(findings)} findings")
    if options.record and not findings:
        figures.record("chat_files", inputs=options.count)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
