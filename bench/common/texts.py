"""Prompts and texts that several benchmarks share."""

from __future__ import annotations

import json
import pathlib
import sysconfig

from bench.common.paths import ROOT

PROMPTS = ROOT / "bench" / "common" / "prompts"  # NAME.txt: beginnings of texts
CHAT_PROMPTS: dict[str, str] = json.loads((PROMPTS / "chat.json").read_text())
CODE_PROMPTS = [
    "def bfs(graph, start):",
    "def topological_sort(graph):",
    "class LRUCache:",
    "import argparse",
    "    def __init__(self, ",
    '    """Return the ',
    "for line in open(",
    "try:\n    import ",
    "class TestStringMethods(unittest.TestCase):",
    "def read_config(path):",
]

LIBRARY = pathlib.Path(sysconfig.get_paths()["stdlib"])
# Held out of the bundled models' training (models/README.md).
HELD_OUT = ["base64", "difflib", "gzip", "email/_encoded_words", "multiprocessing/connection", "idlelib/history"]
HELD_OUT += ["idlelib/searchbase", "tkinter/messagebox", "xml/dom/pulldom", "test/test_asyncio/test_streams"]


def chat(question: str) -> str:
    turns = {"system": "You are a helpful assistant.", "user": question}
    return (
        "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns.items()) + "<|im_start|>assistant\n"
    )


def held_out_files() -> list[str]:
    """The texts of HELD_OUT that this interpreter has."""
    return [path.read_text(encoding="utf-8") for name in HELD_OUT if (path := LIBRARY / f"{name}.py").exists()]
