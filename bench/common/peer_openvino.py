"""One text by OpenVINO GenAI from the same GGUF file, for bench/common/engines.py: peer_openvino.py TEXT_AS_JSON.

With drafts, prompt lookup proposes them (num_draft_tokens each). OpenVINO converts the file's weights when it loads
them.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time

import openvino_genai


def main() -> None:
    text = json.loads(sys.argv[1])
    drafts = text["num_draft_tokens"]
    properties = {"INFERENCE_NUM_THREADS": text["threads"], **({"prompt_lookup": True} if drafts else {})}
    pipeline = openvino_genai.LLMPipeline(text["target"], "CPU", **properties)
    config = openvino_genai.GenerationConfig(max_new_tokens=text["tokens"], apply_chat_template=False)
    if drafts:
        config.num_assistant_tokens, config.max_ngram_size = drafts, 3
    if text["temperature"] > 0:
        config.do_sample, config.temperature, config.rng_seed = True, text["temperature"], text["seed"]
        config.top_k, config.top_p = 40, 0.95
    times: list[float] = []

    def record(_: str) -> bool:
        times.append(time.perf_counter())
        return False

    result = pipeline.generate([pathlib.Path(text["prompt"]).read_text()], config, record)
    metrics = result.perf_metrics
    tokens = metrics.get_num_generated_tokens() - 1  # the first one belongs to reading the prompt
    seconds = (metrics.get_generate_duration().mean - metrics.get_ttft().mean) / 1e3
    print(json.dumps({"tokens": tokens, "seconds": seconds}))


if __name__ == "__main__":
    main()
