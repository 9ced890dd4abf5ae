"""requires: litellm==1.110.2
over: OpenAI's, Anthropic's, Ollama's
checks: texts of three APIs, streamed and not; tools; embeddings"""

import sys

import litellm

url = sys.argv[1]
messages = [{"role": "user", "content": "def f("}]
for model, base in (("openai/any", url + "/v1"), ("anthropic/any", url), ("ollama_chat/any", url)):
    options = {"model": model, "api_base": base, "api_key": "none", "messages": messages, "max_tokens": 8}
    text = litellm.completion(**options, temperature=0).choices[0].message.content
    parts = [part.choices[0].delta.content or "" for part in litellm.completion(**options, temperature=0, stream=True)]
    assert text and "".join(parts) == text, (model, text, parts)
tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
options = {"model": "openai/any", "api_base": url + "/v1", "api_key": "none", "messages": messages}
reply = litellm.completion(**options, tools=[tool], tool_choice="required", max_tokens=100)
assert reply.choices[0].message.tool_calls[0].function.name == "f"
rows = litellm.embedding("openai/any", input=["a", "b"], api_base=url + "/v1", api_key="none", encoding_format="float")
assert len(rows.data) == 2
