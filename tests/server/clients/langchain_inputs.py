"""What the langchain clients give to their models."""

from langchain_core.tools import tool

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
