"""Time of a cycle by layer of the code.

python -m bench.cycle.cycle_profile [TARGET DRAFT] [--temperatures 0 0.8] [--k 3]

Samples the threads of `specdec generate` with perf (Debian: linux-perf). A sample inside a cycle, on the executor's
thread, counts for the layer of its innermost frame that belongs to one; milliseconds are shares of the measured time of
a cycle. Other programs on the machine hardly change the shares, except that of waiting. Without models: the bundled
pair. The end-of-text token is banned.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator

from bench.common.options import parser_of

# Innermost first: a layer and the functions by which it is entered.
LAYERS = {
    "waiting at barriers": r"ggml_barrier|ggml_threadpool_chunk",
    "arithmetic": r"ggml_graph_compute_thread",
    "waking threads": r"ggml_graph_compute$",
    "planning and starting graphs": r"ggml_backend_sched_graph_compute_async|llama_context::graph_compute",
    "building graphs": r"llama_model::build_graph|ggml_backend_sched_(alloc_graph|reset)|llm_graph_result::reset",
    "reusing graphs": r"llm_graph_result::can_reuse|llama_context::graph_params",
    "inputs of graphs, the mask": r"llm_graph_result::set_inputs",
    "copying logits": r"ggml_backend_tensor_get|llama_get_logits",
    "batches and cells": r"llama_decode",
    "truncating caches": r"llama_memory_seq_rm",
    "log-probability of the pieces": r"specdec::sampling::log_softmax",
    "transforms": r"specdec::sampling::Transforms::",
    "verification": r"specdec::sampling::",
    "text": r"specdec::TextStream|specdec::Vocabulary|specdec::Text::",
    "the loop": r"specdec::Decoder|specdec::Scheduler|specdec::Executor",
}
LAYER_OF = {name: re.compile(rf"(void )?({pattern})") for name, pattern in LAYERS.items()}
CYCLE, THREAD = "specdec::Scheduler::cycle", "specdec::Executor::work"
MODELS = {"specdec::DraftModelProposer::": "draft", "specdec::Decoder::": "target"}  # innermost first
OURS = ["truncating caches", "log-probability of the pieces", "transforms", "verification", "text", "the loop"]


def stacks(script: str) -> Iterator[list[str]]:
    """Function names of each sample, innermost first."""
    for sample in filter(str.strip, script.split("\n\n")):
        yield [frame.split(maxsplit=1)[1] for frame in sample.strip().splitlines()[1:]]


def classify(stack: list[str]) -> tuple[str, str] | None:
    """The layer and the model (draft or target); None outside cycles."""
    if not any(frame.startswith(CYCLE) for frame in stack):
        return None
    layer = next(name for frame in stack for name, pattern in LAYER_OF.items() if pattern.match(frame))
    model = next((name for frame in stack for start, name in MODELS.items() if frame.startswith(start)), "target")
    return layer, model


def profile(command: list[str], frequency: int) -> tuple[Counter[tuple[str, str]], dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        record = [
            "perf",
            "record",
            "-q",
            "-m",
            "64M",
            "-F",
            str(frequency),
            "--call-graph",
            "dwarf,65528",
            "-o",
            data,
            "--",
        ]
        out = subprocess.run([*record, *command], capture_output=True, text=True)
        if out.returncode != 0:
            sys.exit(f"error: {' '.join(record[:2])} failed: {out.stderr.strip()}")
        fields = ["-F", "comm,ip,sym", "--no-inline"]
        script = subprocess.run(
            ["perf", "script", "-i", data, *fields], capture_output=True, text=True, check=True
        ).stdout
    every = list(stacks(script))
    passes = [stack for stack in every if any("llama_context::process_ubatch" in frame for frame in stack)]
    if sum(any(frame.startswith(THREAD) for frame in stack) for stack in passes) < 0.95 * len(passes):
        sys.exit("error: perf truncated stacks")  # the remaining samples would be biased
    found = Counter(found for stack in every if (found := classify(stack)))
    return found, json.loads(out.stdout.splitlines()[-1])["stats"]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="*", metavar="GGUF", help="target and draft")
    parser.add_argument("--temperatures", nargs="+", default=["0", "0.8"])
    parser.add_argument("--k", default="3", help='drafts per cycle, or "auto"')
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--frequency", type=int, default=1000, help="samples per second")
    parser.add_argument(
        "--real-time", action="store_true", help="at real-time priority (chrt -f 10): other programs wait"
    )
    arguments = parser.parse_args()
    if len(arguments.models) not in (0, 2):
        parser.error("give a target and a draft, or neither")

    for temperature in arguments.temperatures:
        found: Counter[tuple[str, str]] = Counter()
        seconds = cycles = tokens = 0.0
        for run in range(arguments.runs):
            command = ["chrt", "-f", "10"] if arguments.real_time else []
            command += [
                str(arguments.build / "specdec"),
                "generate",
                "--json",
                "-p",
                "def bfs(graph, start):",
                "-l",
                "0-inf",
            ]
            command += ["-n", str(arguments.tokens), "-k", arguments.k, "--temp", temperature, "-s", str(run)]
            command += ["--verification", "block"]  # with "auto" lengths and a seed, the default is "invariant"
            if arguments.models:
                command += ["-m", arguments.models[0], "-md", arguments.models[1]]
            samples, stats = profile(command, arguments.frequency)
            found += samples
            seconds, cycles, tokens = (
                seconds + stats["seconds"],
                cycles + stats["target_calls"],
                tokens + stats["tokens"],
            )
        total = found.total()
        if total == 0:
            sys.exit(f"error: no sample is inside {CYCLE}")
        per_sample = 1e3 * seconds / cycles / total
        print(
            f"\ntemperature {temperature}, K = {arguments.k}: {1e3 * seconds / cycles:.3f} ms and "
            f"{tokens / cycles:.2f} tokens",
            end="",
        )
        print(f" per cycle; {total} samples\n\n| ms per cycle | draft | target | share |\n|---|---|---|---|")
        for layer in LAYERS:
            parts = [found[layer, model] for model in ("draft", "target")]
            cells = [f"{per_sample * part:.3f}" if part else "" for part in parts]
            print(f"| {layer} | {cells[0]} | {cells[1]} | {100 * sum(parts) / total:.2f} % |")
        ours = sum(count for (layer, _), count in found.items() if layer in OURS)
        print(f"| the last {len(OURS)} together | | {per_sample * ours:.3f} | {100 * ours / total:.2f} % |", flush=True)


if __name__ == "__main__":
    main()
