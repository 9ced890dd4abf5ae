"""One text by transformers' assisted generation in F32, for bench/common/engines.py: peer_transformers.py
TEXT_AS_JSON."""

from __future__ import annotations

import json
import pathlib
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteria, StoppingCriteriaList


class Clock(StoppingCriteria):  # type: ignore[misc]
    """Called after each pass of the target; the first one reads the prompt."""

    def __init__(self, draft: torch.nn.Module) -> None:
        self.passes: list[tuple[float, int, int]] = []  # seconds, length of the text, tokens drafted until then
        self.drafted = 0
        draft.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.drafted += 1  # a pass of the draft is a token

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
        self.passes.append((time.perf_counter(), input_ids.shape[1], self.drafted))
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


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
    clock = Clock(draft)
    with torch.inference_mode():
        target.generate(
            ids,
            assistant_model=draft,
            max_new_tokens=text["tokens"],
            do_sample=sampled,
            suppress_tokens=[text["end_of_text"]],
            stopping_criteria=StoppingCriteriaList([clock]),
            **sampling,
        )
    (start, prompt, before), (end, length, drafted) = clock.passes[0], clock.passes[-1]
    tokens = length - prompt
    accepted = tokens - (len(clock.passes) - 1)  # every pass yields one token more than it accepts
    print(json.dumps({"tokens": tokens, "seconds": end - start, "drafted": drafted - before, "accepted": accepted}))


if __name__ == "__main__":
    main()
