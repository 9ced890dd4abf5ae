"""requires: llama-index-llms-openai-like==0.8.1
over: OpenAI's
checks: texts, chats, streams, models by a tool"""

import sys
from typing import Literal

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class Answer(BaseModel):
    kind: Literal["a", "b"]


options = {"model": "any", "api_base": sys.argv[1] + "/v1", "api_key": "none", "temperature": 0, "max_tokens": 60}
model = OpenAILike(**options, is_chat_model=True, is_function_calling_model=True)
text = model.chat([ChatMessage(content="def f(")]).message.content
assert text and "".join(part.delta for part in model.stream_chat([ChatMessage(content="def f(")])) == text
assert OpenAILike(**options).complete("def f(").text
assert model.as_structured_llm(Answer).complete("x").raw.kind in ("a", "b")
