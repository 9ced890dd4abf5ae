"""Whether "auto" keeps up with plain decoding and with the best K on a mixture of experts whose tokens share experts
as those of a text do, and how many experts a pass reads.

python -m bench.mixture.clustered [--random] [--threads 2] [--rounds 3] [--tokens 160] [--folder FOLDER]

The mixture is the bundled target with 64 experts of which 8 are used (0.3B weights, Q8_0). Every expert is the
target's feed-forward part, so it writes what the target writes, and the bundled draft is accepted as for the target.
The routers are what training makes of routers: directions of clusters of what the layers read on the standard library.
--random: the random mixture of bench/mixture/mixture.py instead, with its drafts.

Texts have a seed, so that they are the same with every K. "First": a new Generator each time, which knows nothing, for
"auto" and for plain decoding.
Prints two markdown tables.
"""

from __future__ import annotations

import pathlib
import statistics
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from bench.common.paths import DRAFT, TARGET
from bench.common.random_models import model_file, parser
from bench.common.texts import CODE_PROMPTS, LIBRARY
from bench.mixture.mixture import SHAPE
from gguf import GGMLQuantizationType as GgmlType
from tests.models.numpy_llama import exact, layer, rms_norm
from tests.models.tiny_models import Model, Shape, Vocabulary, make

import specdec_native as sd

EXPERTS, USED = 64, 8
F64Array = npt.NDArray[np.float64]
MODULES = ["argparse", "ast", "calendar", "cmd", "configparser", "csv", "dis", "doctest"]
FIXED = [1, 2, 3, 5, 7]


class Small:
    """The bundled target, and what its layers' feed-forward parts read."""

    def __init__(self) -> None:
        self.reader = gguf.GGUFReader(TARGET)
        tensors = {t.name: np.asarray(t.data, np.float32) for t in self.reader.tensors}
        shape = Shape(width=256, heads=4, kv_heads=2, head=64, ffn=768, layers=8)
        self.model = Model("llama", shape, {}, tensors, Vocabulary())

    def read_by_experts(self, tokens: list[int]) -> list[F64Array]:
        t = self.model.tensors
        x: F64Array = t["token_embd.weight"][tokens].astype(np.float64)
        found = []
        for i in range(self.model.shape.layers):
            normed = rms_norm(x, t[f"blk.{i}.attn_norm.weight"])
            without = self.model.with_tensors({f"blk.{i}.ffn_down.weight": np.zeros((256, 768), np.float32)})
            found.append(rms_norm(layer(without, i, x, normed, exact), t[f"blk.{i}.ffn_norm.weight"]))
            x = layer(self.model, i, x, normed, exact)
        return found


def unit(x: F64Array) -> F64Array:
    y: F64Array = x / np.linalg.norm(x, axis=1, keepdims=True)
    return y


def router(x: F64Array, seed: int) -> F64Array:
    """x [tokens, width] -> [experts, width]: directions of clusters, none of them that of the mean."""
    mean = x.mean(0) / np.linalg.norm(x.mean(0))
    points = unit(x - np.outer(x @ mean, mean))
    centres = points[np.random.default_rng(seed).choice(len(points), EXPERTS, replace=False)]
    for _ in range(12):
        nearest = (points @ centres.T).argmax(1)
        sums = np.array([points[nearest == e].sum(0) if (nearest == e).any() else centres[e] for e in range(EXPERTS)])
        centres = unit(sums)
    return 10.0 * centres


def windows(generator: sd.Generator, modules: list[str]) -> list[list[int]]:
    return [generator.tokenize((LIBRARY / f"{name}.py").read_text())[:500] for name in modules]


def make_mixture(path: pathlib.Path, small: Small, texts: list[list[int]]) -> None:
    reads = [np.vstack(parts) for parts in zip(*map(small.read_by_experts, texts), strict=True)]
    writer = gguf.GGUFWriter(path.with_suffix(".part"), "llama")
    for field in small.reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    for name, tensor in small.model.tensors.items():
        encoded = gguf.quants.quantize(tensor, GgmlType.Q8_0) if tensor.ndim == 2 else tensor
        kind = GgmlType.Q8_0 if tensor.ndim == 2 else GgmlType.F32
        if ".ffn_" not in name or "norm" in name:
            writer.add_tensor(name, encoded, raw_dtype=kind)
        else:
            writer.add_tensor(name.replace(".weight", "_exps.weight"), np.stack([encoded] * EXPERTS), raw_dtype=kind)
    for i, x in enumerate(reads):
        writer.add_tensor(f"blk.{i}.ffn_gate_inp.weight", router(x, i).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".part").rename(path)


def print_experts(mixture: pathlib.Path, small: Small, texts: list[list[int]]) -> None:
    """Distinct experts of n tokens that follow each other in a text that the routers were not made from."""
    routers = {t.name: t.data for t in gguf.GGUFReader(mixture).tensors if "ffn_gate_inp" in t.name}
    chosen = []  # [layer][token][used]
    for tokens in texts:
        for i, x in enumerate(small.read_by_experts(tokens)):
            chosen.append(np.argsort(-(x @ routers[f"blk.{i}.ffn_gate_inp.weight"].T), axis=1)[:, :USED])
    print("| tokens | experts of a layer, mean | of tokens that choose independently | deviation of a pass's mean, % |")
    print("|---|---|---|---|")
    layers = small.model.shape.layers
    for n in (1, 2, 3, 4, 6, 8):
        counts = [[len(np.unique(ids[at : at + n])) for at in range(0, len(ids) - n, n)] for ids in chosen]
        passes = [np.mean(counts[i : i + layers], axis=0) for i in range(0, len(counts), layers)]
        mean, deviation = np.concatenate(passes).mean(), np.concatenate(passes).std()
        independent = EXPERTS * (1 - (1 - USED / EXPERTS) ** n)
        print(f"| {n} | {mean:.1f} | {independent:.1f} | {100 * deviation / mean:.1f} |")


def generator_of(model: pathlib.Path, source: Any, threads: int) -> sd.Generator:
    return sd.Generator(model, source, n_threads=threads, suffix=False, auto_cache=False)


def ratio(slow: list[float], fast: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def print_speeds(model: pathlib.Path, drafts: dict[str, pathlib.Path | str], options: Any, sampling: Any) -> None:
    """Tokens per second, medians over prompts and rounds that take turns; ratios of the same texts."""
    print("| draft | accepted | plain | " + " | ".join(f"K = {k}" for k in FIXED) + " | auto: first, later ", end="")
    print("| of plain: first, later | later, of the best K |\n" + "|---" * (len(FIXED) + 6) + "|")
    for name, source in drafts.items():
        seconds: dict[str | int, list[float]] = {}
        made = accepted = drafted = 0
        with generator_of(model, source, options.threads) as warm:

            def timed(gen: sd.Generator, text: int, k: Any) -> Any:
                prompt = CODE_PROMPTS[text % len(CODE_PROMPTS)]
                return gen.generate(
                    prompt, max_tokens=options.tokens, num_draft_tokens=k, seed=text, ignore_eos=True, **sampling
                ).stats

            timed(warm, 0, "auto")
            for text in range(options.rounds):
                ks: list[str | int] = [0, *FIXED, "auto"]
                for k in ks:
                    stats = timed(warm, text, k)
                    seconds.setdefault(k, []).append(stats.seconds)
                    if k == 1:
                        accepted, drafted = accepted + stats.accepted, drafted + stats.drafted
                for row, k in (("first", "auto"), ("first plain", 0)):
                    with generator_of(model, source, options.threads) as fresh:
                        stats = timed(fresh, text, k)
                        seconds.setdefault(row, []).append(stats.seconds)
                made = stats.tokens
        totals = {k: sum(seconds[k]) for k in [*FIXED, 0]}
        best = min(totals, key=totals.__getitem__)
        speeds = {k: statistics.median(made / s for s in times) for k, times in seconds.items()}
        cells = [f"{speeds[k]:.0f}" for k in (0, *FIXED)] + [f"{speeds['first']:.0f}, {speeds['auto']:.0f}"]
        first, later = ratio(seconds["first plain"], seconds["first"]), ratio(seconds[0], seconds["auto"])
        cells += [f"{first:.3f}, {later:.3f}", f"{ratio(seconds[best], seconds['auto']):.3f} (K = {best})"]
        print(f"| {name} | {accepted / max(1, drafted):.2f} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--random", action="store_true")
    options.set_defaults(tokens=160, rounds=3)
    arguments = options.parse_args()
    if arguments.random:
        mixture = model_file(arguments.folder / "mixture-q8_0.gguf", "qwen3moe", SHAPE)
        shape = Shape(width=256, layers=4, context=2048, ffn=512)
        draft = make("qwen3", 3, shape=shape).write(arguments.folder / "mixture-draft.gguf")
        print_speeds(mixture, {"a random draft model": draft, "copies": "suffix"}, arguments, {"temperature": 0})
        return
    small = Small()
    mixture = arguments.folder / "clustered-mixture-q8_0.gguf"
    with sd.Generator(TARGET, DRAFT) as tokenizer:
        learnt, others = windows(tokenizer, MODULES), windows(tokenizer, ["heapq", "shlex", "textwrap"])
    if not mixture.exists():
        make_mixture(mixture, small, learnt)
    print_experts(mixture, small, others)
    print()
    print_speeds(mixture, {"the bundled draft": DRAFT, "copies": "suffix"}, arguments, {"temperature": 0.8})


if __name__ == "__main__":
    main()
