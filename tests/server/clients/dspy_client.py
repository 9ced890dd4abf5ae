"""requires: dspy==3.4.1
over: OpenAI's
checks: texts, and signatures with a response format"""

import sys
from typing import Literal

import dspy

options = {"api_base": sys.argv[1] + "/v1", "api_key": "none", "max_tokens": 200, "temperature": 0, "cache": False}
assert dspy.LM("openai/any", **options)("def f(")[0]
verdict = {"properties": {"verdict": {"enum": ["yes", "no"]}}, "required": ["verdict"], "additionalProperties": False}
form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", **verdict}}}
dspy.configure(lm=dspy.LM("openai/any", **options, response_format=form), adapter=dspy.JSONAdapter())


class Judge(dspy.Signature):
    question: str = dspy.InputField()
    verdict: Literal["yes", "no"] = dspy.OutputField()


assert dspy.Predict(Judge)(question="x").verdict in ("yes", "no")
