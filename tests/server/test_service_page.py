"""The configurations of docs/service.md: those that can be run here are run."""

from __future__ import annotations

import configparser
import json
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest
from tests.server.running import serving, wait_until

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "service.md"
KEY = "a-key"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(block("ini").replace("\\\n", ""))
    return parser


def test_the_unit_starts_a_server(specdec: pathlib.Path, tmp_path: pathlib.Path, target_path: pathlib.Path) -> None:
    """With its own command line, below another folder."""
    service = unit()["Service"]
    program, command, *options = shlex.split(service["ExecStart"])
    assert program.endswith("/specdec") and command == "serve"
    for name in ("target", "draft"):
        place = tmp_path / f"srv/specdec/{name}.gguf"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target_path.with_name(f"stdlib-{name}-f16.gguf"))
    credential, source = service["LoadCredential"].split(":")
    assert source == "/etc/specdec/keys"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / credential).write_text(KEY + "\n")
    options = [option.replace("${CREDENTIALS_DIRECTORY}", "/run") for option in options]
    moved = [str(tmp_path) + option if option.startswith("/") else option for option in options]
    port = moved.index("--port")
    del moved[port : port + 2]  # the test chooses one
    with serving(specdec, *moved) as server:
        assert server.get("/health").status == 200 and server.get("/v1/models").status == 401
        assert server.get("/v1/models", {"Authorization": f"Bearer {KEY}"}).status == 200
    assert int(service["TimeoutStopSec"]) > 30, "the default of --drain-timeout"


def test_the_user_of_the_unit_has_no_group_of_its_name() -> None:
    """systemd refuses a dynamic user whose name only a group has."""
    assert unit()["Service"]["DynamicUser"] == "yes"
    assert not re.search(r"^groupadd\b.* specdec$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: pathlib.Path, specdec: pathlib.Path) -> None:
    path = tmp_path / "specdec.service"
    path.write_text(block("ini").replace("/usr/local/bin/specdec", str(specdec)))
    found = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in found.stderr.splitlines() if "specdec.service" in line]
    assert complaints == []


def nginx(folder: pathlib.Path, port: int, upstream: int) -> list[object]:
    """A command that runs it with the page's configuration, without TLS."""
    site = block("nginx").replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    site = re.sub(r"\n +ssl_certificate.*", "", site).replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    folders = "".join(f"{name}_temp_path {folder};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/errors;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{folders}{site}\n}}\n"
    )
    return ["-p", folder, "-c", folder / "nginx.conf"]


def caddy(folder: pathlib.Path, port: int, upstream: int) -> list[object]:
    site = block("caddy").replace("llm.example.org", f"http://127.0.0.1:{port}")
    site = site.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    (folder / "Caddyfile").write_text(f"{{\n  admin off\n}}\n{site}")
    return ["run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def proxied(request: pytest.FixtureRequest, specdec: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[str]:
    """The address below a prefix of a proxy, in front of a server with a key."""
    name = request.param.__name__
    program = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip(f"needs {name}")
    port = free_port()
    with serving(specdec, "-k", 4, "--api-key", KEY, "--cors", "https://llm.example.org") as server:
        command = list(map(str, [program, *request.param(tmp_path, port, server.port)]))
        log = tmp_path / "log"
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env={"HOME": str(tmp_path)})
        try:
            wait_until(lambda: is_listening(port) or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield f"http://127.0.0.1:{port}/llm/"
        finally:
            process.terminate()
            process.wait(timeout=60)


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_stream_through_a_proxy(proxied: str) -> None:
    """Tokens arrive while the answer is written, not all at its end."""
    body = {"messages": [{"role": "user", "content": "def f("}], "max_tokens": 400, "stream": True, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    headers |= {"Origin": "https://llm.example.org"}  # of the page behind the proxy
    request = urllib.request.Request(proxied + "v1/chat/completions", json.dumps(body).encode(), headers)
    times = []
    with urllib.request.urlopen(request, timeout=600) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        for line in reply:
            if line.startswith(b"data: "):
                times.append(time.monotonic())
    assert line == b"\n" and len(times) > 20
    assert times[2] - times[0] < (times[-1] - times[0]) / 2, "the first events do not wait for the last ones"


def test_the_page_through_a_proxy(proxied: str) -> None:
    """It finds the APIs below the prefix: all its paths are relative. The prefix without its slash leads there, too."""
    with urllib.request.urlopen(proxied.rstrip("/"), timeout=60) as reply:
        assert reply.url == proxied
        page = reply.read().decode()
    paths = re.findall(r'(?:request|post|fetch)\("([^"]+)"', page)
    assert len(paths) > 4 and not any(path.startswith("/") for path in paths)
    request = urllib.request.Request(proxied + "metrics", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        metrics = reply.read().decode()
    named = re.findall(r"`((?:llamacpp|specdec):\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 4 and all(re.search(rf"^{name} ", metrics, re.MULTILINE) for name in named)


def test_the_container_file(specdec: pathlib.Path) -> None:
    """It is not built, which would need an engine and the network: its instructions and options exist."""
    lines = block("dockerfile").replace("\\\n", "").splitlines()
    assert {line.split()[0] for line in lines} == {
        "FROM",
        "RUN",
        "USER",
        "ENV",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
    }
    (entry,) = (json.loads(line.removeprefix("ENTRYPOINT ")) for line in lines if line.startswith("ENTRYPOINT"))
    command = re.findall(r"^podman run (.*?)\n```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
    given = shlex.split(command.replace("\\\n", ""))
    options = [*entry, *given[given.index("specdec", given.index("--stop-timeout")) + 1 :]]
    known = subprocess.run([specdec, "serve", "--help-all"], capture_output=True, text=True, check=True).stdout
    named = [option for option in options if option.startswith("-")]
    assert entry[:2] == ["specdec", "serve"] and len(named) == 5
    assert all(re.search(rf"(^|[ ,]){re.escape(option)}\b", known, re.MULTILINE) for option in named)
