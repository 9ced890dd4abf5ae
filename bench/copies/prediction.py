"""How much faster the answers to the eight editing prompts come with a prediction of them (`prediction=`).

python -m bench.copies.prediction [--tokens 200] [--rounds 3] [--models FOLDER] [--replay]

The predictions: the answer itself; the text that is to be edited; and a wrong one, the answer to another of the
prompts. All runs of a prompt alternate in one process, decoding alone is timed, and earlier outputs are not
remembered, because the rounds have the same answers. Speeds are relative to the run without a prediction of the same
round, so that a busy machine slows both. Greedy: every run has the same output, which is checked.

Rows named "counted" have what other programs disturb only where they change what "auto" decides: the passes of both
models at given prices. A pass of the target over n tokens costs 0.8 + 0.2 n passes over one (measured
for 4 / 8 / 16 with AVX-512: 1.2 / 2.1 / 4.0), one of the draft model 0.3.

With --replay the answers are decoded in simulated time instead (bench/copies/replay.cpp), without a draft model, which
no other program disturbs.
"""

from __future__ import annotations

import pathlib
import statistics

from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from bench.copies.editing import edits
from bench.copies.replay import replay

import specdec_native as sd


def edited_text(prompt: str) -> str:
    return prompt.split("```\n")[1].removesuffix("\n")


def price(stats: sd.Stats) -> float:
    """In passes of the target over one token."""
    return stats.target_calls + 0.2 * stats.drafted + 0.3 * stats.draft_calls


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these of the prompts")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--models", type=pathlib.Path, default=FOLDER)
    arguments = parser.parse_args()
    target, draft = (arguments.models / f"{name}.gguf" for name in PAIR)
    # Three ways to draft without a prediction: not at all, with the model, and also with copies of the prompt.
    engines = {
        "no draft": sd.Generator(target, n_ctx=4096, n_threads=arguments.threads),
        "draft model": sd.Generator(target, draft, suffix=False, n_ctx=4096, n_threads=arguments.threads),
        "default": sd.Generator(target, draft, n_ctx=4096, n_threads=arguments.threads),
    }
    engines["default"]._core.set_remembers_outputs(False)
    requests = edits()
    system = {"role": "system", "content": "You are a helpful assistant."}
    prompts = {
        name: engines["default"].apply_chat_template([system, {"role": "user", "content": text}])
        for name, text in requests.items()
    }
    answers = {
        name: engines["default"].generate(prompt, max_tokens=arguments.tokens, temperature=0).text
        for name, prompt in prompts.items()
    }
    names = list(prompts)
    others = dict(zip(names, names[1:] + names[:1], strict=True))

    def predictions_of(name: str) -> dict[str, str]:
        return {"answer": answers[name], "text": edited_text(requests[name]), "wrong": answers[others[name]]}

    kinds = ("answer", "text", "wrong")
    if arguments.replay:
        ids = engines["default"].tokenize
        for kind in kinds:
            print(kind, flush=True)
            replay([ids(prompts[name]), ids(answers[name]), ids(predictions_of(name)[kind])] for name in names)
        return
    print(f"greedy, at most {arguments.tokens} tokens, medians of {arguments.rounds} rounds: times as fast\n")
    print("| | " + " | ".join(f"{engine}: {kind}" for engine in engines for kind in kinds) + " |")
    print("|---|" + "---|" * (len(engines) * len(kinds)), flush=True)
    counted: dict[str, list[float]] = {}
    columns: dict[tuple[str, str], list[float]] = {(engine, kind): [] for engine in engines for kind in kinds}
    for name in arguments.only or names:
        predictions = predictions_of(name)
        counted[name] = []
        cells = []
        for engine, generator in engines.items():
            gains: dict[str, list[float]] = {kind: [] for kind in kinds}
            prices: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(arguments.rounds):
                stats = {}
                for kind in ("", *kinds):
                    completion = generator.generate(
                        prompts[name],
                        max_tokens=arguments.tokens,
                        temperature=0,
                        prediction=predictions[kind] if kind else "",
                    )
                    assert completion.text == answers[name]
                    stats[kind] = completion.stats
                for kind in kinds:
                    gains[kind].append(stats[kind].tokens_per_second / stats[""].tokens_per_second)
                    prices[kind].append(price(stats[""]) / price(stats[kind]))
            for kind in kinds:
                columns[engine, kind].append(statistics.median(gains[kind]))
                cells.append(f"{columns[engine, kind][-1]:.2f}")
                counted[name].append(statistics.median(prices[kind]))
        print(f"| {name} | " + " | ".join(cells) + " |")
        print(f"| {name}, counted | " + " | ".join(f"{gain:.2f}" for gain in counted[name]) + " |", flush=True)
    for title, of in (("median", statistics.median), ("least", min)):
        print(f"| {title} | " + " | ".join(f"{of(column):.2f}" for column in columns.values()) + " |")
    for title, of in (("median", statistics.median), ("least", min)):
        cells = [f"{of(column):.2f}" for column in zip(*counted.values(), strict=True)]
        print(f"| {title}, counted | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
