"""One text by llama-cpp-python, for bench/common/engines.py: peer_llama_cpp_python.py TEXT_AS_JSON.

With drafts, prompt lookup proposes them. Its generate() goes on after an end-of-text token, so that none need be
banned.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from typing import Any

from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


class Counting(LlamaPromptLookupDecoding):  # type: ignore[misc]
    calls = drafted = 0

    def __call__(self, input_ids: Any, /, **options: Any) -> Any:
        draft = super().__call__(input_ids, **options)
        self.calls, self.drafted = self.calls + 1, self.drafted + len(draft)
        return draft


def main() -> None:
    text = json.loads(sys.argv[1])
    draft = Counting(num_pred_tokens=text["num_draft_tokens"]) if text["num_draft_tokens"] else None
    threads = {"n_threads": text["threads"], "n_threads_batch": text["threads"]}
    model = Llama(text["target"], draft_model=draft, n_ctx=text["context"], seed=text["seed"], verbose=False, **threads)
    prompt = model.tokenize(pathlib.Path(text["prompt"]).read_bytes(), special=True)
    tokens, start = -1, 0.0
    for _ in model.generate(prompt, temp=text["temperature"], top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1.0):
        tokens += 1
        if tokens == 0:
            start = time.perf_counter()  # after reading the prompt
        if tokens == text["tokens"]:
            break
    seconds = time.perf_counter() - start
    timing = {"tokens": tokens, "seconds": seconds}
    if draft:  # each call is one pass, which yields one token more than it accepts
        timing |= {"drafted": draft.drafted, "accepted": max(0, tokens - draft.calls)}
    print(json.dumps(timing))


if __name__ == "__main__":
    main()
