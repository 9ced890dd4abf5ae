"""Tokens per second on the real pair as downloaded.

python -m bench.real_pair.real_pair [--rounds 3] [--tokens 160] [--temperatures 0 0.7 1] [--device Vulkan0]

Twelve prompts (questions, code, refactoring, prose; prompts/chat.json) in Qwen's chat format;
bench/common/real_models.py downloads the pair. Every generation is a process of its own, rows alternate within a round,
and only decoding is timed. llama.cpp's programs are those of the pinned source with its default options (cmake --preset
default -DSPECDEC_PEERS=ON), or of another build (--llama FOLDER): plain, with the draft model for K = 1, 2 and 4, and
with n-gram lookup. OpenVINO GenAI and llama-cpp-python read the same file (python -m bench.peers.peers --install
openvino llama-cpp-python). Ours: plain, every K up to 4, and the default ("auto"). --rows picks some. With --device all
layers of all rows run on that device; --llama must then name programs of a build with the same backend, and our plain
row and the default are there with --no-exact, too. Appends a line per generation to --results and prints a table for
each temperature of all that is there, so that runs may be done in pieces; --report only prints.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable

from bench.common.engines import Text, Timing, Unavailable, number, output_of, python_peer
from bench.common.options import parser_of
from bench.common.paths import ROOT
from bench.common.real_models import FOLDER, PAIR
from bench.common.texts import CHAT_PROMPTS, chat

SAMPLING: list[object] = ["--top-k", 40, "--top-p", 0.95, "--min-p", 0.05]


DEFAULT = "ours, draft (default)"
Engine = Callable[[pathlib.Path, float, int], Timing]  # prompt, temperature, seed


class Rows:
    def __init__(
        self, arguments: argparse.Namespace, peers: pathlib.Path | None = None, device: str | None = None
    ) -> None:
        self.arguments, self.device = arguments, device
        self.target, self.draft = (arguments.models / f"{name}.gguf" for name in PAIR)
        self.peers, self.binary = peers or arguments.build / "bench" / "peers", arguments.build / "specdec"
        self.common: list[object] = ["-n", arguments.tokens, "-t", arguments.threads, "-c", 1024, *SAMPLING]
        self.common += ["-dev", device, "-ngl", "all"] if device else []
        self.llama_draft: list[object] = ["-devd", device, "-ngld", "all"] if device else []

    def llama(self, program: str, prompt: pathlib.Path, temperature: float, seed: int, *options: object) -> str:
        if not (self.peers / program).exists():
            raise Unavailable(
                f"{self.peers / program} is missing: cmake --preset default -DSPECDEC_PEERS=ON, then build"
            )
        return output_of(self.peers / program, *self.request(prompt, temperature, seed), *options)

    def request(self, prompt: pathlib.Path, temperature: float, seed: int) -> list[object]:
        return ["-m", self.target, "-f", prompt, "--temp", temperature, "-s", seed, *self.common]

    def llama_plain(self, prompt: pathlib.Path, temperature: float, seed: int) -> Timing:
        out = self.llama("llama-completion", prompt, temperature, seed, "-no-cnv", "--no-display-prompt", "--perf")
        passes = int(number(r"\beval time = .*?/ +(\d+) runs", out))
        return Timing(passes, number(r"(?<!prompt )eval time = +([\d.]+) ms", out) / 1e3)

    def llama_speculative(self, *options: object) -> Engine:
        def run(prompt: pathlib.Path, temperature: float, seed: int) -> Timing:
            out = self.llama("llama-speculative-simple", prompt, temperature, seed, *options)
            return Timing(
                int(number(r"n_predict *= *(\d+)", out)), number(r"decoded +\d+ tokens in +([\d.]+) seconds", out)
            )

        return run

    def ours(self, *options: object) -> Engine:
        def run(prompt: pathlib.Path, temperature: float, seed: int) -> Timing:
            out = output_of(self.binary, "generate", "--json", *self.request(prompt, temperature, seed), *options)
            stats = json.loads(next(line for line in reversed(out.splitlines()) if '"stats"' in line))["stats"]
            return Timing(**{name: stats[name] for name in Timing.__annotations__})

        return run

    def python(self, peer: str, num_draft_tokens: int) -> Engine:
        def run(prompt: pathlib.Path, temperature: float, seed: int) -> Timing:
            tokens, threads = self.arguments.tokens, self.arguments.threads
            return python_peer(peer)(
                Text(self.target, None, num_draft_tokens, prompt, tokens, temperature, seed, threads)
            )

        return run

    def table(self) -> dict[str, Engine]:
        rows: dict[str, Engine] = {"llama.cpp, plain": self.llama_plain}
        for k in (1, 2, 4):
            drafts: list[object] = ["--spec-type", "draft-simple", "-md", self.draft, "--spec-draft-n-max", k]
            rows[f"llama.cpp, draft, K = {k}"] = self.llama_speculative(*drafts, *self.llama_draft)
        ngrams = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 3, "--spec-ngram-simple-size-m", 4]
        rows["llama.cpp, n-gram, K = 4"] = self.llama_speculative(*ngrams)
        rows["llama.cpp, ngram-mod"] = self.llama_speculative("--spec-type", "ngram-mod")
        for name, peer in {"OpenVINO GenAI": "openvino", "llama-cpp-python": "llama_cpp_python"}.items():
            rows[f"{name}, plain"] = self.python(peer, 0)
            rows[f"{name}, prompt lookup, K = 4"] = self.python(peer, 4)
        rows["ours, plain"] = self.ours("-k", 0)
        for k in (1, 2, 3, 4):
            rows[f"ours, draft, K = {k}"] = self.ours("-md", self.draft, "-k", k)
        rows[DEFAULT] = self.ours("-md", self.draft)
        if self.device:
            rows["ours, plain, --no-exact"] = self.ours("-k", 0, "--no-exact")
            rows["ours, draft, --no-exact"] = self.ours("-md", self.draft, "--no-exact")
        return rows


def measure(arguments: argparse.Namespace, rows: dict[str, Engine]) -> None:
    left_out: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, arguments.results.open("a") as results:
        for round_ in range(arguments.rounds):
            for name in arguments.prompts:
                prompt = pathlib.Path(folder, f"{name}.txt")
                prompt.write_text(chat(CHAT_PROMPTS[name]))
                for temperature in arguments.temperatures:
                    for row, run in rows.items() if round_ % 2 == 0 else reversed(rows.items()):
                        if row in left_out:
                            continue
                        try:
                            timing = run(prompt, temperature, round_)
                        except Unavailable as error:
                            left_out.add(row)
                            print(f"without {row}: {error}", file=sys.stderr)
                            continue
                        speed = timing.tokens / timing.seconds
                        line = {"row": row, "temperature": temperature, "prompt": name, "tokens_per_second": speed}
                        results.write(json.dumps(line) + "\n")
                        results.flush()
                print(f"round {round_ + 1}: {name}", file=sys.stderr, flush=True)


Speeds = dict[float, dict[str, dict[str, float]]]  # temperature, row, prompt: tokens/s, the median of all rounds


def read_speeds(results: pathlib.Path) -> Speeds:
    rounds: dict[tuple[float, str, str], list[float]] = {}
    for text in results.read_text().splitlines():
        line = json.loads(text)
        rounds.setdefault((line["temperature"], line["row"], line["prompt"]), []).append(line["tokens_per_second"])
    speeds: Speeds = {}
    for (temperature, row, name), values in rounds.items():
        speeds.setdefault(temperature, {}).setdefault(row, {})[name] = statistics.median(values)
    return speeds


def print_table(speeds: Speeds, temperature: float) -> None:
    rows = speeds.get(temperature, {})
    prompts = [name for name in CHAT_PROMPTS if any(name in row for row in rows.values())]
    print(f"\n{PAIR[0]} with {PAIR[1]}, temperature {temperature:g}: tokens/s\n")
    print("| | " + " | ".join([*prompts, "median"]) + " |\n|---|" + "---|" * (len(prompts) + 1))
    for name, row in rows.items():
        cells = [f"{row[prompt]:.1f}" if prompt in row else "" for prompt in prompts]
        print(f"| {name} | " + " | ".join([*cells, f"{statistics.median(row.values()):.1f}"]) + " |")
    default = rows.get(DEFAULT)
    if default is None:
        return
    others = {
        "the best row of llama.cpp": [name for name in rows if name.startswith("llama.cpp")],
        "plain": ["ours, plain"],
        "the best K": [name for name in rows if name.startswith("ours, draft, K")],
    }
    print()
    for what, names in others.items():
        compared = [name for name in names if name in rows]
        ratios = [
            speed / max(rows[name][prompt] for name in compared)
            for prompt, speed in default.items()
            if compared and all(prompt in rows[name] for name in compared)
        ]
        if ratios:
            median, least, most = statistics.median(ratios), min(ratios), max(ratios)
            print(f"The default is {median:.2f} times {what} in the median, {least:.2f} to {most:.2f}.")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7, 1.0])
    parser.add_argument("--prompts", nargs="+", choices=CHAT_PROMPTS, default=list(CHAT_PROMPTS))
    parser.add_argument("--rows", nargs="+", help="only rows whose name contains one of these")
    parser.add_argument("--device", help="runs all layers (specdec generate --list-devices)")
    parser.add_argument("--models", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--llama", type=pathlib.Path, metavar="FOLDER", help="llama.cpp's programs of another build")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "real_pair.jsonl")
    arguments = parser.parse_args()
    rows = Rows(arguments, arguments.llama, arguments.device).table()
    if arguments.rows:
        rows = {name: run for name, run in rows.items() if any(part in name for part in arguments.rows)}

    if not arguments.report:
        measure(arguments, rows)
    speeds = read_speeds(arguments.results)
    for temperature in arguments.temperatures:
        print_table(speeds, temperature)


if __name__ == "__main__":
    main()
