"""A local server that speaks the Hugging Face hub's protocol, and can be told to misbehave.

Two servers, as in reality: the hub answers questions about repositories and redirects downloads of large files to the
other, which has their contents.
"""

from __future__ import annotations

import hashlib
import http.client
import http.server
import json
import select
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

TOKEN = "hf_" + "a" * 34


@dataclass
class Repository:
    files: dict[str, bytes]
    is_private: bool = False
    is_gated: bool = False
    commit: str = ""
    stated_sizes: dict[str, int] = field(default_factory=dict)  # instead of the real ones

    def __post_init__(self) -> None:
        self.commit = self.commit or hashlib.sha1(repr(sorted(self.files)).encode()).hexdigest()


@dataclass
class Request:
    server: str  # "hub", "store"
    method: str
    path: str
    headers: dict[str, str]  # names in lower case


@dataclass
class FakeHub:
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)  # of the hub, before it works again
    cuts: list[int] = field(default_factory=list)  # the next downloads end after so many bytes
    corrupt: int = 0  # so many of the next downloads have a wrong byte
    ranges: bool = True
    stall: int = 0  # the next download stops after so many bytes, without an end
    endpoint: str = ""
    store: str = ""

    def add(self, name: str, files: dict[str, bytes], **options: object) -> Repository:
        self.repositories[name] = Repository(files, **options)  # type: ignore[arg-type]
        return self.repositories[name]

    def downloads(self) -> list[Request]:
        return [request for request in self.requests if request.server == "store" and request.method == "GET"]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_name = ""
    hub: FakeHub

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append(Request(self.server_name, self.command, self.path, headers))
        self.handle_path(urllib.parse.unquote(url.path).strip("/"))

    def handle_path(self, path: str) -> None:
        raise NotImplementedError


class _HubHandler(_Handler):
    server_name = "hub"

    def handle_path(self, path: str) -> None:
        if self.hub.answers:
            status, headers = self.hub.answers.pop(0)
            return self.answer(status, b'{"error": "try later"}', headers)
        parts = path.removeprefix("api/models/").split("/")
        name = "/".join(parts[:2])
        repository = self.hub.repositories.get(name)
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repository is None or (repository.is_private and not is_known):
            return self.answer(404 if is_known else 401, b'{"error": "no"}', {"X-Error-Code": "RepoNotFound"})
        if path.startswith("api/models/"):
            return self.describe(name, repository)
        if repository.is_gated:
            return self.answer(403 if is_known else 401, b'{"error": "gated"}', {"X-Error-Code": "GatedRepo"})
        file = "/".join(parts[4:])
        if parts[2] != "resolve" or parts[3] not in ("main", repository.commit) or file not in repository.files:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        etag = sha256(repository.files[file])
        size = repository.stated_sizes.get(file, len(repository.files[file]))
        linked = {
            "X-Repo-Commit": repository.commit,
            "X-Linked-Etag": f'"{etag}"',
            "X-Linked-Size": str(size),
            "ETag": f'"{etag}"',
        }
        self.answer(302, b"elsewhere", linked | {"Location": f"{self.hub.store}/{etag}?signature=x"})

    def describe(self, name: str, repository: Repository) -> None:
        siblings = []
        for path, content in repository.files.items():
            size = repository.stated_sizes.get(path, len(content))
            lfs = {"sha256": sha256(content), "size": size, "pointerSize": 130}
            siblings.append({"rfilename": path, "size": size, "blobId": hashlib.sha1(content).hexdigest(), "lfs": lfs})
        description = {
            "id": name,
            "modelId": name,
            "sha": repository.commit,
            "private": repository.is_private,
            "tags": [],
        }
        body = json.dumps(description | {"downloads": 0, "siblings": siblings}).encode()
        self.answer(200, body, {"Content-Type": "application/json", "X-Repo-Commit": repository.commit})


class _StoreHandler(_Handler):
    server_name = "store"

    def handle_path(self, path: str) -> None:
        contents = [content for one in self.hub.repositories.values() for content in one.files.values()]
        content = next(content for content in contents if sha256(content) == path)
        if self.command == "GET" and self.hub.corrupt > 0:
            self.hub.corrupt -= 1
            content = content[:-1] + bytes([content[-1] ^ 1])
        start, status, headers = 0, 200, {"ETag": f'"{path}"', "Accept-Ranges": "bytes" if self.hub.ranges else "none"}
        asked = self.headers.get("Range")
        if asked and self.hub.ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            status, headers = 206, headers | {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        body = content[start:]
        if self.command != "GET" or not (self.hub.cuts or self.hub.stall):
            return self.answer(status, body, headers)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        stall, self.hub.stall = self.hub.stall, 0
        self.wfile.write(body[: stall or self.hub.cuts.pop(0)])
        self.wfile.flush()
        if stall:
            self.rfile.read(1)  # until the other side is gone
        self.close_connection = True


@contextmanager
def running(tls: ssl.SSLContext | None = None) -> Iterator[FakeHub]:
    """tls: for https."""
    hub = FakeHub()
    servers = []
    # Two host names, so that the redirection leads to another host.
    for handler, host in ((_HubHandler, "localhost"), (_StoreHandler, "127.0.0.1")):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type(handler.__name__, (handler,), {"hub": hub}))
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        servers.append((server, f"{'http' if tls is None else 'https'}://{host}:{server.server_port}"))
    hub.endpoint, hub.store = servers[0][1], servers[1][1]
    try:
        yield hub
    finally:
        for server, _ in servers:
            server.shutdown()
            server.server_close()


class _ProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_CONNECT(self) -> None:
        self.seen.append(f"CONNECT {self.path}")
        host, port = self.path.split(":")
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            near = self.connection
            while True:
                for one in select.select([near, far], [], [])[0]:
                    if not (data := one.recv(1 << 16)):
                        self.close_connection = True
                        return
                    (far if one is near else near).sendall(data)

    def do_GET(self) -> None:
        self.seen.append(f"{self.command} {self.path}")
        url = urllib.parse.urlsplit(self.path)
        far = http.client.HTTPConnection(url.netloc)
        far.request(
            self.command, f"{url.path}?{url.query}" if url.query else url.path, headers=dict(self.headers.items())
        )
        answer = far.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        far.close()

    do_HEAD = do_GET


@dataclass
class Proxy:
    url: str
    seen: list[str]  # "CONNECT localhost:1234", "GET http://localhost:1234/some/path"


@contextmanager
def running_proxy() -> Iterator[Proxy]:
    seen: list[str] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("ProxyHandler", (_ProxyHandler,), {"seen": seen}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield Proxy(f"http://127.0.0.1:{server.server_port}", seen)
    finally:
        server.shutdown()
        server.server_close()
