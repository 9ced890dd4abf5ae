"""A notebook of someone who tries the package for the first time, run by nbconvert."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import nbformat

# Each cell's output is looked at by check().
LOAD = """
import specdec_native as sd

gen = sd.Generator(TARGET, DRAFT, n_ctx=1024, max_sequences=2, progress=True)
"""
STREAM = """
for piece in gen.stream("def bfs(graph, start):", max_tokens=32, temperature=0.7, seed=1):
    print(piece.text, end="", flush=True)
"""
AGAIN = """
gen.generate("def bfs(graph, start):", max_tokens=32, temperature=0.7, seed=1).text
"""
STATS = """
gen.stats
"""
MANY = """
prompts = ["import os\\n", "class Stack:", "def f("]
completions = gen.generate_many(prompts, max_tokens=12, seed=1, progress=True)
[completion.finish_reason for completion in completions]
"""
AWAIT = """
import asyncio

prompts = ["import os\\n", "class Stack:"]
both = await asyncio.gather(*(gen.agenerate(prompt, max_tokens=12, seed=1) for prompt in prompts))
both[0].text == completions[0].text and both[1].stats.drafting != ""
"""
SCORE = """
gen.score("import os\\nimport sys\\n").total > gen.score("import os\\nimport zq\\n").total
"""
INTERRUPT = """
import signal, threading, time

def press_stop():  # what the notebook's stop button does
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Timer(1.0, press_stop).start()
start = time.monotonic()
try:
    while True:
        gen.generate("import os\\n", max_tokens=900, temperature=1.5)
except KeyboardInterrupt:
    print("stopped", time.monotonic() - start < 20)
"""
MISTAKES = """
for attempt in (
    lambda: gen.generate("x", temperature=-1),
    lambda: gen.generate("x", temperature="0.0"),
    lambda: gen.generate("x", stop=5),
    lambda: gen.generate("x" * 100_000),
    lambda: sd.Generator("no such file.gguf"),
):
    try:
        attempt()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""
CHAT = """
messages = [{"role": "user", "content": "Who are you and who made you?"}]
answer = gen.chat(messages, max_tokens=60, temperature=0)
messages += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "Say that in five words."}]
for piece in gen.stream_chat(messages, max_tokens=30, temperature=0):
    print(piece.text, end="")
answer.text
"""
NO_TEMPLATE = """
gen.chat([{"role": "user", "content": "Who are you?"}], max_tokens=8)
"""
CLOSE = """
gen.close()
try:
    gen.generate("x")
except sd.Error as error:
    print(error)
"""


def run(cells: list[str], folder: pathlib.Path, target: object = None, draft: object = None) -> list[str]:
    """The text of each cell's output, after the first one, which has the models."""
    names = {"TARGET": None if target is None else str(target), "DRAFT": None if draft is None else str(draft)}
    first = "\n".join(f"{name} = {value!r}" for name, value in names.items())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code.strip()) for code in [first, *cells]])
    path = folder / "hour.ipynb"
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook", "--output", "out.ipynb", path]
    home = {"HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_PLATFORM_DIRS": "1"}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=500, env={**os.environ, **home}, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    done = json.loads((folder / "out.ipynb").read_text())
    return ["".join(map(text_of, cell["outputs"])) for cell in done["cells"][1:]]


def text_of(output: dict[str, object]) -> str:
    data = output.get("data")
    text = data["text/plain"] if isinstance(data, dict) else output.get("text", "")
    return "".join(text) if isinstance(text, list) else str(text)


def check(outputs: dict[str, str]) -> None:
    """What every pair must show."""
    assert outputs[AGAIN] == repr(outputs[STREAM]), "a seed repeats a text"
    assert "Stats(prompt_tokens=" in outputs[STATS] and "drafting='" in outputs[STATS]
    assert "3/3" in outputs[MANY] and outputs[MANY].endswith("['length', 'length', 'length']")
    assert outputs[AWAIT] == outputs[SCORE] == "True"
    assert outputs[INTERRUPT] == "stopped True\n"
    mistakes = outputs[MISTAKES].splitlines()
    assert mistakes[0].startswith("ValueError: temperature is -1; it must be ")
    assert mistakes[1].startswith("TypeError: temperature") and mistakes[2].startswith("TypeError: stop")
    assert mistakes[3].startswith("ContextFull: ") and "n_ctx" in mistakes[3]
    assert mistakes[4].startswith("ModelError: no such file.gguf") and len(mistakes) == 5
    assert outputs[CLOSE] == "this Generator is closed\n"


COMMON = [LOAD, STREAM, AGAIN, STATS, MANY, AWAIT, SCORE, INTERRUPT, MISTAKES]
