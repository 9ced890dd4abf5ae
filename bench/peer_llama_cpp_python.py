"""One text by llama-cpp-python with prompt lookup, for bench/peers.py: python peer_llama_cpp_python.py TEXT_AS_JSON."""

from __future__ import annotations

import json
import pathlib
import sys
import time

from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


class Counting(LlamaPromptLookupDecoding):  # type: ignore[misc]
    drafted = 0

    def __call__(self, input_ids, /, **options):  # type: ignore[no-untyped-def]
        draft = super().__call__(input_ids, **options)
        self.drafted += len(draft)
        return draft


def main() -> None:
    text = json.loads(sys.argv[1])
    draft = Counting(num_pred_tokens=text["num_draft_tokens"], max_ngram_size=3)
    threads = {"n_threads": text["threads"], "n_threads_batch": text["threads"]}
    model = Llama(
        text["target"], draft_model=draft, n_ctx=text["context"], logits_all=True, verbose=False, seed=text["seed"], **threads
    )
    prompt = model.tokenize(pathlib.Path(text["prompt"]).read_bytes())
    ban = {text["end_of_text"]: float("-inf")}
    tokens, start = 0, 0.0
    greedy = text["temperature"] == 0

    def banned(ids, scores):  # type: ignore[no-untyped-def]
        for token, bias in ban.items():
            scores[token] += bias
        return scores

    stream = model.generate(
        prompt,
        temp=text["temperature"],
        top_k=1 if greedy else 40,
        top_p=0.95,
        min_p=0.05,
        repeat_penalty=1.0,
        logits_processor=banned,
    )
    for _ in stream:
        tokens += 1
        if tokens == 1:
            start = time.perf_counter()  # the prompt is read
        if tokens > text["tokens"]:
            break
    seconds = time.perf_counter() - start
    # It does not tell what was accepted.
    print(json.dumps({"tokens": tokens - 1, "seconds": seconds}))


if __name__ == "__main__":
    main()
