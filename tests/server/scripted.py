"""A server that has the real page, and answers what a test says, when it says so."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

PAGE = pathlib.Path(__file__).parents[2] / "cpp" / "server" / "page.html"
CONTEXT = 4096
Piece = tuple[str, str]  # text, and the source of the draft that it was; or "reasoning", or "error"


class ScriptedServer:
    def __init__(self, headers: dict[str, str], params: dict[str, Any]) -> None:
        self.headers, self.params = headers, params  # of the page and of /props, as the real server has them
        self.names = ["scripted"]
        self.loaded: set[str] | None = None  # None: all
        self.pieces: queue.Queue[Piece | None] = queue.Queue()  # of answers; None after each
        self.bodies: list[Any] = []  # that chats were asked for with
        self.queries: list[str] = []  # of /props
        self.num_gone = 0  # clients that left before their answer's end
        self.url = ""

    def say(self, *pieces: Piece | str, ends: bool = True) -> None:
        for piece in pieces:
            self.pieces.put((piece, "") if isinstance(piece, str) else piece)
        if ends:
            self.pieces.put(None)

    def model_json(self, name: str) -> Any:
        if self.loaded is None:
            return {"id": name}
        return {"id": name, "status": {"value": "loaded" if name in self.loaded else "unloaded"}}

    def count_tokens(self, body: Any) -> int:
        """A token for every four characters."""
        return sum(len(message["content"]) for message in body["messages"]) // 4


def reply(handler: http.server.BaseHTTPRequestHandler, body: bytes, headers: dict[str, str]) -> None:
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def handler_of(server: ScriptedServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def json(self, value: Any) -> None:
            reply(self, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/":
                reply(self, PAGE.read_bytes(), server.headers)
            elif path == "/v1/models":
                self.json({"data": [server.model_json(name) for name in server.names]})
            elif path == "/props":
                server.queries.append(query)
                context = 0 if server.loaded is not None and not query else CONTEXT
                self.json({"default_generation_settings": {"n_ctx": context, "params": server.params}})
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.loaded is not None:
                server.loaded.add(body["model"])
            if self.path.endswith("/input_tokens"):
                self.json({"input_tokens": server.count_tokens(body)})
            else:
                server.bodies.append(body)
                self.answer(body)

        def answer(self, body: Any) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            timings = {"cache_n": 0, "prompt_n": server.count_tokens(body), "prompt_ms": 250.0, "predicted_n": 0}
            timings |= {"predicted_per_second": 40.0, "draft_n": 0, "draft_n_accepted": 0}
            try:
                while piece := server.pieces.get():
                    text, source = piece
                    if source == "error":
                        return self.event({"error": {"message": text}})
                    kind = "reasoning_content" if source == "reasoning" else "content"
                    is_draft = source not in ("", "reasoning")
                    timings["predicted_n"] += 1
                    timings["draft_n"] += is_draft
                    timings["draft_n_accepted"] += is_draft
                    choice = {"delta": {kind: text}, **({"draft_source": source} if is_draft else {})}
                    self.event({"choices": [choice], "timings": timings})
                self.event({"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": timings})
                self.wfile.write(b"data: [DONE]\n\n")
            except (BrokenPipeError, ConnectionResetError):
                server.num_gone += 1

        def event(self, value: Any) -> None:
            self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
            self.wfile.flush()

    return Handler


@contextlib.contextmanager
def scripted(headers: dict[str, str], params: dict[str, Any]) -> Iterator[ScriptedServer]:
    server = ScriptedServer(headers, params)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(server)) as listener:
        listener.daemon_threads = True
        server.url = f"http://127.0.0.1:{listener.server_port}"
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield server
        server.say()  # ends an answer that waits
        listener.shutdown()
