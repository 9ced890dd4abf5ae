"""langchain-ollama against a server: python langchain_ollama_client.py URL PROMPT; prints what came back as JSON."""

import json
import sys

from langchain_inputs import SCHEMA, weather
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM


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
