"""requires: langgraph==1.2.24 langchain-openai==1.7.3
over: OpenAI's
checks: a graph that calls a tool, and a thread that goes on"""

import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode


@tool
def weather(city: str) -> str:
    """The weather."""
    return city


model = ChatOpenAI(base_url=sys.argv[1] + "/v1", api_key="none", model="any", max_tokens=60, temperature=0)
graph = StateGraph(MessagesState)
caller = model.bind_tools([weather], tool_choice="required")
graph.add_node("call", lambda state: {"messages": [caller.invoke(state["messages"])]})
graph.add_node("tool", ToolNode([weather]))
graph.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
for begin, end in ((START, "call"), ("call", "tool"), ("tool", "answer"), ("answer", END)):
    graph.add_edge(begin, end)
agent = graph.compile(checkpointer=InMemorySaver())
for turn in (1, 2):
    messages = agent.invoke({"messages": [("user", "x")]}, {"configurable": {"thread_id": "1"}})["messages"]
    assert len(messages) == 4 * turn and messages[-2].type == "tool" and messages[-1].content
