"""docs/reference_decode.py: its exact law is the target's, and the engine agrees with it: the engine's verification on
arrays exactly, the whole engine by frequencies."""

from __future__ import annotations

import collections
import importlib.util
import itertools
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import make

import specdec_native as sd
from specdec_native import _core

PATH = pathlib.Path(__file__).parents[2] / "docs" / "reference_decode.py"
Row = npt.NDArray[np.float64]
Law = dict[tuple[int, ...], float]


def load() -> Any:
    spec = importlib.util.spec_from_file_location("reference_decode", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = load()


class Course:
    """One course of chance: follows given choices, then always takes the first possible one."""

    def __init__(self, given: list[int]) -> None:
        self._given, self.choices, self.weights = given, list[int](), list[list[float]]()

    def _choose(self, weights: list[float]) -> int:
        at = len(self.choices)
        chosen = self._given[at] if at < len(self._given) else next(i for i, weight in enumerate(weights) if weight > 0)
        self.choices.append(chosen)
        self.weights.append(weights)
        return chosen

    def token(self, probs: Row) -> int:
        return self._choose([float(one) for one in probs])

    def happens(self, probability: float) -> bool:
        return self._choose([1 - float(probability), float(probability)]) == 1

    def probability(self) -> float:
        return float(np.prod([weights[i] for i, weights in zip(self.choices, self.weights, strict=True)]))


def courses(run: Callable[[Course], Any]) -> Iterator[tuple[Any, float]]:
    """Every course of chance in a run, with its result and probability."""
    given: list[int] = []
    while True:
        course = Course(given)
        yield run(course), course.probability()
        for at in reversed(range(len(course.choices))):
            weights = course.weights[at]
            rest = [i for i in range(course.choices[at] + 1, len(weights)) if weights[i] > 0]
            if rest:
                given = [*course.choices[:at], rest[0]]
                break
        else:
            return


def law_of(run: Callable[[Course], Sequence[int]]) -> Law:
    law: Law = collections.defaultdict(float)
    for output, probability in courses(run):
        law[tuple(output)] += probability
    return law


def table_model(seed: int, size: int) -> Callable[[Sequence[int]], Row]:
    """Logits that depend on the whole text."""
    return lambda tokens: np.random.default_rng([seed, *tokens]).normal(scale=1.5, size=size)


def plain_law(
    target: Callable[[Sequence[int]], Row], prompt: list[int], count: int, ends: Sequence[int] = (), **options: Any
) -> Law:
    law: Law = {(): 1.0}
    for _ in range(count):
        longer: Law = collections.defaultdict(float)
        for output, probability in law.items():
            if output and output[-1] in ends:
                longer[output] += probability
                continue
            text = [*prompt, *output]
            for token, one in enumerate(sd.sampling.transform(target(text), history=text, **options)):
                if one > 0:
                    longer[(*output, token)] += probability * float(one)
        law = longer
    return law


def distance(a: Law, b: Law) -> float:
    return sum(abs(a.get(output, 0.0) - b.get(output, 0.0)) for output in a.keys() | b.keys()) / 2


OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.6, "top_k": 2},
    {"top_p": 0.8, "repeat_penalty": 1.4},
    {"temperature": 0.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_its_law_is_the_targets(options: dict[str, Any], k: int) -> None:
    target, draft = table_model(1, 3), table_model(2, 3)

    def run(course: Course) -> list[int]:
        found: list[int] = reference.decode(
            target, draft, [0, 2], max_tokens=4, num_draft_tokens=k, chance=course, ends=[1], **options
        )
        return found

    law = law_of(run)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert distance(law, plain_law(target, [0, 2], 4, [1], **options)) < 1e-12


@pytest.mark.parametrize("broken", ["residual", "purge", "proposal"])
def test_broken_versions_have_another_law(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction from the target's own row; rejected drafts that stay in the cache; a distribution that is recorded
    without the transforms that the draft was sampled with."""
    if broken == "residual":
        monkeypatch.setattr(reference, "residual", lambda target, draft: target)
    elif broken == "purge":
        monkeypatch.setattr(reference.CachedModel, "purge", lambda self, length: None)
    else:
        whole = reference.propose

        def propose(draft: Any, tokens: list[int], count: int, chance: Any, options: dict[str, Any]) -> Any:
            drafted, _ = whole(draft, tokens, count, chance, {**options, "temperature": 0.3})
            rows = [draft.rows[len(tokens) - 1 + i] for i in range(count)]
            return drafted, [sd.sampling.transform(row) for row in rows]

        monkeypatch.setattr(reference, "propose", propose)
    target, draft = table_model(1, 3), table_model(2, 3)
    law = law_of(
        lambda course: reference.decode(target, draft, [0, 2], max_tokens=4, num_draft_tokens=2, chance=course)
    )
    assert distance(law, plain_law(target, [0, 2], 4)) > 0.01


def verdicts(drafted: list[int], draft: Row, target: Row) -> Law:
    """The exact law of the engine's verify_token over its uniforms: its verdict is the same for all uniforms between
    two of these borders."""
    law: Law = collections.defaultdict(float)
    k = len(drafted)
    tests = [sorted({0.0, min(1.0, target[i][t] / draft[i][t]), 1.0}) for i, t in enumerate(drafted)]
    rows = [target[k], *(sd.sampling.residual(target[i], draft[i]) for i in range(k))]
    last = sorted({0.0, 1.0, *(min(1.0, float(border)) for row in rows for border in np.cumsum(row))})
    for cells in itertools.product(*(list(itertools.pairwise(borders)) for borders in [*tests, last])):
        weight = float(np.prod([high - low for low, high in cells]))
        if weight < 1e-14:
            continue  # two borders that differ by rounding
        verdict = sd.sampling.verify_token(drafted, draft, target, [(low + high) / 2 for low, high in cells])
        law[verdict.num_accepted, verdict.next_token] += weight
    return law


@pytest.mark.parametrize("seed", range(20))
def test_the_engines_verification_has_its_law(seed: int) -> None:
    random = np.random.default_rng(seed)
    k, size = int(random.integers(1, 4)), int(random.integers(2, 5))
    draft, target = random.dirichlet(np.full(size, 0.7), k), random.dirichlet(np.full(size, 0.7), k + 1)
    if seed % 3 == 0:
        draft = np.eye(size)[random.integers(size, size=k)]  # argmax drafting
    for drafted in itertools.product(range(size), repeat=k):
        if all(draft[i][token] > 0 for i, token in enumerate(drafted)):
            expected = law_of(
                lambda course: reference.verify(list(drafted), list(draft), list(target), course),  # noqa: B023
            )
            assert distance(verdicts(list(drafted), draft, target), expected) < 1e-9


def test_the_engine_has_its_law(tmp_path: pathlib.Path) -> None:
    """Two small models restricted to three tokens. The law is exact, from the engine's own logits; the engine's outputs
    are counted: 4,000, which tell laws 0.05 apart."""
    model = make("llama", seed=1)
    files = [tmp_path / "target.gguf", tmp_path / "draft.gguf"]
    for file, one in zip(files, (model, model.near(0.3)), strict=True):
        one.write(file, GgmlType.F32)
    prompt, allowed, count = [5, 9, 17], [20, 21, 22], 3

    def rows(file: pathlib.Path) -> Callable[[Sequence[int]], Row]:
        known: dict[tuple[int, ...], Row] = {}

        def logits(tokens: Sequence[int]) -> Row:
            text = (*prompt, *(allowed[token] for token in tokens[1:]))  # the first one stands for the prompt
            if text not in known:
                known[text] = _core.evaluate(str(file), list(text), [1], n_threads=1)[-1][allowed]
            return known[text].astype(np.float64)

        return logits

    target, draft = rows(files[0]), rows(files[1])
    law = law_of(
        lambda course: reference.decode(target, draft, [0], max_tokens=count, num_draft_tokens=2, chance=course)
    )
    assert distance(law, plain_law(target, [0], count)) < 1e-12
    num_outputs = 4000
    with sd.Generator(*files, n_threads=1, n_ctx=64, num_draft_tokens=2, max_sequences=8) as gen:
        requests = [
            sd.Request(prompt=prompt, max_tokens=count, seed=seed, allowed_token_ids=allowed, ignore_eos=True)
            for seed in range(num_outputs)
        ]
        outputs = gen.generate_many(
            requests, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, verification="token", logit_bias=None
        )
    assert sum(one.stats.accepted for one in outputs) > num_outputs // 4
    counts = collections.Counter(tuple(allowed.index(token) for token in one.tokens) for one in outputs)
    measured = {output: number / num_outputs for output, number in counts.items()}
    # The expected distance of so many outputs is at most sqrt(27 outcomes / (2 pi n)) = 0.033.
    assert distance(measured, dict(law)) < 0.045
    uniform = dict.fromkeys(law, 1 / len(law))
    assert distance(measured, uniform) > 0.1  # the test can tell


def test_it_runs_and_is_short() -> None:
    assert len(PATH.read_text().splitlines()) <= 150
    ran = subprocess.run([sys.executable, str(PATH)], capture_output=True, text=True, check=True, timeout=60)
    assert len(ran.stdout.splitlines()) == 5
