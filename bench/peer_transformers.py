"""One text by transformers' assisted generation in F32, for bench/peers.py: python peer_transformers.py TEXT_AS_JSON."""

from __future__ import annotations

import json
import pathlib
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessor, LogitsProcessorList


class FirstTokenClock(LogitsProcessor):  # type: ignore[misc]
    """When the prompt's logits were there."""

    start: float | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.start is None:
            self.start = time.perf_counter()
        return scores


def load(path: str) -> AutoModelForCausalLM:
    file = pathlib.Path(path)
    return AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()


def main() -> None:
    text = json.loads(sys.argv[1])
    torch.set_num_threads(text["threads"])
    torch.manual_seed(text["seed"])
    target, draft = load(text["target"]), load(text["draft"])
    file = pathlib.Path(text["target"])
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    draft.generation_config.num_assistant_tokens = text["num_draft_tokens"]
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    ids = tokenizer(pathlib.Path(text["prompt"]).read_text(), return_tensors="pt").input_ids
    sampled = text["temperature"] > 0
    sampling = {"temperature": text["temperature"], "top_k": 40, "top_p": 0.95, "min_p": 0.05} if sampled else {}
    clock = FirstTokenClock()
    with torch.inference_mode():
        out = target.generate(
            ids,
            assistant_model=draft,
            max_new_tokens=text["tokens"],
            do_sample=sampled,
            suppress_tokens=[text["end_of_text"]],
            logits_processor=LogitsProcessorList([clock]),
            **sampling,
        )
    assert clock.start is not None
    print(json.dumps({"tokens": out.shape[1] - ids.shape[1], "seconds": time.perf_counter() - clock.start}))


if __name__ == "__main__":
    main()
