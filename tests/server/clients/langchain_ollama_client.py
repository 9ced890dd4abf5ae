"""langchain-ollama against a server: python langchain_ollama_client.py URL PROMPT; prints what came back as JSON."""

import json
import sys

from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM

SCHEMA = {
    "title": "Answer",
    "type": "object",
    "properties": {"name": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["name", "count"],
    "additionalProperties": False,
}


@tool
def weather(city: str) -> str:
    """The weather."""
    return city


def main() -> None:
    url, prompt = sys.argv[1:]
    options = {"base_url": url, "model": "any", "seed": 5, "temperature": 0.8}
    model = ChatOllama(num_predict=16, **options)
    structured = ChatOllama(num_predict=60, **options).with_structured_output(SCHEMA, method="json_schema")
    embeddings = OllamaEmbeddings(base_url=url, model="any")
    result = {
        "text": model.invoke(prompt).text,
        "streamed": "".join(chunk.text for chunk in model.stream(prompt)),
        "with tools": model.bind_tools([weather]).invoke(prompt).text,
        "generated": OllamaLLM(num_predict=16, **options).invoke(prompt),
        "structured": structured.invoke(prompt),
        "rows": embeddings.embed_documents([prompt, "import os"]),
    }
    print(json.dumps(result))


main()
