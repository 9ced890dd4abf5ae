"""requires: pydantic-ai-slim[openai]==2.68.0
over: OpenAI's
checks: texts, streams, results that are models, by tools and by a schema"""

import sys
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Answer(BaseModel):
    kind: Literal["a", "b"]
    is_sure: bool


model = OpenAIChatModel("any", provider=OpenAIProvider(base_url=sys.argv[1] + "/v1", api_key="none"))
settings = {"max_tokens": 100, "temperature": 0.0}
assert Agent(model, model_settings=settings).run_sync("def f(").output
for output in (ToolOutput(Answer), NativeOutput(Answer)):
    assert isinstance(Agent(model, output_type=output, model_settings=settings).run_sync("x").output, Answer)
