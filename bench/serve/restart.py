"""The next turn of a long conversation, before and after a restart of `specdec serve --cache-disk`.

python -m bench.serve.restart [--tokens 4000] [--models FOLDER]

A conversation about a file of the standard library is answered; then its next turn is asked for on the same server,
and on one that was restarted with the folder of caches. Each row has the seconds until the server listens, and from
the request to the first text, which is what a restart costs beyond loading. Without the folder the restarted server
would read everything, as for the first turn. That a restored prefix gives the same text is tested elsewhere
(tests/server/test_prefixes.py).
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from bench.common.options import parser_of
from bench.common.paths import BUILD
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import LIBRARY


@contextlib.contextmanager
def serving(command: list[object]) -> Iterator[tuple[str, float]]:
    """Its address, and the seconds until it listened. It ends as after Ctrl-C, with its caches written."""
    start = time.monotonic()
    arguments = [str(part) for part in command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            sys.exit(f"{arguments[0]} did not start")
        try:
            yield line.split()[-1], time.monotonic() - start
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def ask(url: str, messages: list[dict[str, str]]) -> tuple[str, float, dict[str, Any]]:
    """The answer, the seconds to its first text, and its timings."""
    body = {"messages": messages, "temperature": 0, "max_tokens": 32, "stream": True}
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    timings: dict[str, Any] = {}
    start, text, first = time.monotonic(), "", 0.0
    with urllib.request.urlopen(request) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                sys.exit(str(event["error"]))
            delta = event["choices"][0]["delta"].get("content") if event["choices"] else None
            if delta and not text:
                first = time.monotonic() - start
            text += delta or ""
            timings = event.get("timings") or timings
    return text, first, timings


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--specdec", type=pathlib.Path, default=BUILD / "specdec")
    parser.add_argument("--models", type=pathlib.Path, default=FOLDER)
    arguments = parser.parse_args()
    target, draft = (arguments.models / f"{name}.gguf" for name in PAIR)
    context = arguments.tokens + 512
    command: list[object] = [arguments.specdec, "serve", "-m", target, "-md", draft, "--port", 0]
    command += ["-t", arguments.threads, "-c", context, "-np", 1, "--timeout", 0]
    code = (LIBRARY / "argparse.py").read_text()[: 4 * arguments.tokens]  # four bytes or a few more to a token
    messages = [{"role": "user", "content": f"What does this do?\n\n```python\n{code}\n```"}]
    questions = [{"role": "user", "content": f"Which class is the {place} one?"} for place in ("first", "last")]
    print("| | until it listens, s | tokens cached, read | to the first text, s |\n|---|---|---|---|")

    def row(name: str, listens: float | None, first: float, timings: dict[str, Any]) -> None:
        shown = "" if listens is None else f"{listens:.1f}"
        print(f"| {name} | {shown} | {timings['cache_n']}, {timings['prompt_n']} | {first:.2f} |", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        keeping = [*command, "--cache-disk", folder]
        with serving(keeping) as (url, listens):
            answer, first, timings = ask(url, messages)
            row("first turn", listens, first, timings)
            messages.append({"role": "assistant", "content": answer})
            _, first, timings = ask(url, [*messages, questions[0]])
            row("next turn, same server", None, first, timings)
        with serving(keeping) as (url, listens):
            _, first, timings = ask(url, [*messages, questions[1]])
            row("next turn, restarted", listens, first, timings)


if __name__ == "__main__":
    main()
