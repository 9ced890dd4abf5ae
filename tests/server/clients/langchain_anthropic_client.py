"""langchain-anthropic against a server: python langchain_anthropic_client.py URL PROMPT; prints what came back as
JSON."""

import json
import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_inputs import weather


def main() -> None:
    url, prompt = sys.argv[1:]
    model = ChatAnthropic(
        base_url=url, api_key="none", model="any", max_tokens=16, temperature=0, max_retries=0, stop_sequences=["@@"]
    )
    answer = model.invoke([("system", "Be brief."), ("user", prompt)])
    result = {
        "text": answer.text,
        "tokens": answer.usage_metadata["output_tokens"],
        "streamed": "".join(chunk.text for chunk in model.stream([("system", "Be brief."), ("user", prompt)])),
        "with tools": model.bind_tools([weather]).invoke(prompt).text,
        "counted": model.get_num_tokens_from_messages([HumanMessage(prompt)]),
    }
    print(json.dumps(result))


main()
