"""requires: instructor==1.17.0
over: OpenAI's
checks: pydantic models by tools, by a schema, and streamed in parts"""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field


class Answer(BaseModel):
    name: str = Field(pattern="^[a-c]{1,3}$")
    tags: list[bool] = Field(max_length=2)


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(OpenAI(base_url=sys.argv[1] + "/v1", api_key="none"), mode=mode)
    options = {"model": "any", "messages": [{"role": "user", "content": "x"}], "max_tokens": 200, "max_retries": 0}
    assert isinstance(client.chat.completions.create(response_model=Answer, **options), Answer)
    *_, last = client.chat.completions.create_partial(response_model=Answer, **options)
    assert set(last.name) <= set("abc")
