"""langchain-openai against a server: python langchain_client.py URL PROMPT; prints what came back as JSON."""

import json
import sys

from langchain_inputs import SCHEMA, weather
from langchain_openai import ChatOpenAI


def main() -> None:
    url, prompt = sys.argv[1:]
    model = ChatOpenAI(
        base_url=url + "/v1", api_key="none", model="any", seed=5, max_tokens=16, temperature=0.8, max_retries=0
    )
    responses = ChatOpenAI(
        base_url=url + "/v1",
        api_key="none",
        model="any",
        max_tokens=16,
        temperature=0,
        max_retries=0,
        use_responses_api=True,
    )
    answer = model.invoke(prompt)
    structured = model.model_copy(update={"max_tokens": 60}).with_structured_output(SCHEMA, method="json_schema")
    result = {
        "text": answer.content,
        "tokens": answer.usage_metadata["output_tokens"],
        "streamed": "".join(chunk.content for chunk in model.stream(prompt)),
        "batch": [one.content for one in model.batch([prompt] * 3)],
        "structured": structured.invoke(prompt),
        "with tools": model.bind_tools([weather]).invoke(prompt).content,
        "response": responses.invoke(prompt).text,
    }
    print(json.dumps(result))


main()
