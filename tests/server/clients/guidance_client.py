"""requires: guidance[openai]==0.3.1
over: OpenAI's
checks: chats with roles, JSON that obeys a model"""

import sys
from typing import Literal

import guidance
from pydantic import BaseModel


class Answer(BaseModel):
    kind: Literal["a", "b"]


model = guidance.models.OpenAI("any", base_url=sys.argv[1] + "/v1", api_key="none", echo=False)
with guidance.user():
    model += "def f("
with guidance.assistant():
    text = model + guidance.gen("text", max_tokens=8)
    schema = model + guidance.json("answer", schema=Answer, max_tokens=60)
assert text["text"] and Answer.model_validate_json(schema["answer"])
