"""Generator.score_choices: the bits of a score of the whole text, with the prompt read once. The option `choice`."""

from __future__ import annotations

import asyncio
import math
import pathlib
from typing import Any

import pytest
from tests.models.chain_model import MESSAGES, PIECES, chain, write_chain

import specdec_native as sd

PROMPT = "import os\nimport sys\n\n\ndef main():\n    return os.path." * 6
CHOICES = ["join", "exists", "isfile", "dirname", "zq"]


@pytest.mark.parametrize("max_sequences", [1, 4])
def test_scores_have_the_bits_of_a_whole_text(max_sequences: int) -> None:
    with sd.Generator(n_threads=2) as alone, sd.Generator(n_threads=2, max_sequences=max_sequences) as gen:
        prompt = gen.tokenize(PROMPT)
        for given in (PROMPT, prompt):
            scores = gen.score_choices(given, CHOICES)
            assert [score.choice for score in scores] == CHOICES
            for score in scores:
                alone.generate("x", max_tokens=1)
                whole = alone.score([*prompt, *score.tokens])
                assert score.logprobs == whole.logprobs[len(prompt) :]
                assert score.logprob == sum(score.logprobs)
                assert gen.detokenize(score.tokens) == score.choice
            assert sum(score.probability for score in scores) == pytest.approx(1, abs=1e-12)
            total = math.fsum(math.exp(score.logprob) for score in scores)
            for score in scores:
                assert score.probability == pytest.approx(math.exp(score.logprob) / total, rel=1e-9)
        assert max(scores, key=lambda score: score.logprob).choice == "join"
        text = alone.score(PROMPT + "join")  # the tokens of the text are those of its two parts here
        assert scores[0].logprobs == text.logprobs[len(prompt) :] and text.tokens == [*prompt, *scores[0].tokens]


def test_the_prompt_is_read_once() -> None:
    """Every choice reads its own tokens and the prompt's last one again."""
    with sd.Generator(n_threads=2) as gen:
        gen.prefill(PROMPT)
        num_prompt = len(gen.tokenize(PROMPT))
        for choice in CHOICES:
            handle = sd.RequestHandle(gen, gen._core.submit_label(gen.tokenize(PROMPT), gen._core.label_tokens(choice)))
            handle.result()
            assert handle.stats.prompt_cached_tokens == num_prompt - 1


def test_choices_as_token_ids_and_for_asyncio() -> None:
    with sd.Generator(n_threads=2, max_sequences=2) as gen:
        expected = gen.score_choices("import ", ["os", "sys"])
        ids = [score.tokens for score in expected]
        assert [score.logprobs for score in gen.score_choices("import ", ids)] == [one.logprobs for one in expected]
        assert gen.score_choices("import ", ids)[0].choice == ids[0]

        async def both() -> Any:
            return await asyncio.gather(*(gen.ascore_choices("import ", ["os", "sys"]) for _ in range(2)))

        assert asyncio.run(both()) == [expected, expected]


def test_the_choices_of_an_answer(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "chain.gguf"
    write_chain(path, chain(PIECES))
    with sd.Generator(path, n_threads=1) as gen:
        begin = gen.chat(MESSAGES, temperature=0.0, max_tokens=3).tokens
        likely, other = gen.score_choices(MESSAGES, [begin, "zzz"])
        assert likely.probability > 0.99 > other.probability


@pytest.mark.parametrize(
    ("prompt", "choices", "error", "message"),
    [
        ("x", [], ValueError, "at least one text"),
        ("x", "yes", ValueError, "must be a list"),
        ("x", ["yes", ""], ValueError, "the choice '' has no tokens"),
        ("x", [5], TypeError, "a label is 5"),
        ([], ["yes"], ValueError, "empty"),
        ("x", [[10**7]], ValueError, "token"),
        ("x" * 100000, ["yes"], sd.ContextFull, "the context holds"),
    ],
)
def test_bad_arguments(prompt: Any, choices: Any, error: type[Exception], message: str) -> None:
    with sd.Generator(n_threads=1) as gen, pytest.raises(error, match=message):
        gen.score_choices(prompt, choices)


def test_the_output_is_one_of_the_choices() -> None:
    with sd.Generator(n_threads=2) as gen:
        choices = ["sys", "os", "a | b\n", 'quote " and \\']
        seen = {gen.generate("import ", choice=choices, seed=seed, temperature=2.0, top_k=0).text for seed in range(60)}
        assert seen <= set(choices) and len(seen) > 1
        assert gen.generate("import ", choice="sys").text == "sys"
        for wrong in ([], ["a", ""]):
            with pytest.raises(ValueError, match="choice must have at least one text, and no empty one"):
                gen.generate("x", choice=wrong)
        with pytest.raises(ValueError, match="regex is given with choice; at most one"):
            gen.generate("x", choice=["a"], regex="b")
