"""BOS and EOS in the tokens of requests: a whole text has them, a part of one has not."""

from __future__ import annotations

import pathlib

from tests.models.tiny_models import Vocabulary, make
from tests.server.running import serving

BOS, EOS = Vocabulary().bos, Vocabulary().eos


def test_of_a_model_that_adds_both(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = make("llama", vocabulary=Vocabulary(adds_eos=True)).write(tmp_path / "target.gguf")
    with serving(specdec, "-m", target, "-c", 64) as server:
        part = server.post("/tokenize", {"content": "ab"}).json["tokens"]
        assert len(part) == 2 and not {BOS, EOS} & set(part)
        assert server.post("/tokenize", {"content": "ab", "add_special": True}).json["tokens"] == [BOS, *part, EOS]

        def tokens_of_prompt(prompt: object) -> int:
            reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
            return int(reply.json["usage"]["prompt_tokens"])

        assert tokens_of_prompt(["ab"]) == 4
        assert tokens_of_prompt([["ab", part[0], "a"]]) == 1 + 2 + 1 + 1
