"""requires: outlines[openai]==1.3.3
over: OpenAI's
checks: texts, models, choices of a schema"""

import sys
from typing import Literal

import openai
import outlines
from pydantic import BaseModel


class Answer(BaseModel):
    kind: Literal["a", "b"]
    is_sure: bool


model = outlines.from_openai(openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none"), "any")
assert model("def f(", max_tokens=8)
assert Answer.model_validate_json(model("x", Answer, max_tokens=100))
assert "".join(model.stream("def f(", max_tokens=8))
