"""requires: smolagents[openai]==1.26.0
over: OpenAI's
checks: texts, streams, a tool that an agent calls"""

import sys

from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def weather(city: str) -> str:
    """The weather.

    Args:
        city: where
    """
    return city


model = OpenAIModel("any", api_base=sys.argv[1] + "/v1", api_key="none", max_tokens=100, temperature=0)
messages = [{"role": "user", "content": [{"type": "text", "text": "def f("}]}]
text = model.generate(messages).content
assert text and text == "".join(part.content or "" for part in model.generate_stream(messages))
assert model.generate(messages, tools_to_call_from=[weather]).tool_calls[0].function.name == "weather"
agent = ToolCallingAgent([weather], model, max_steps=1)
agent.run("x")
assert agent.memory.steps[1].tool_calls
