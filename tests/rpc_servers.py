"""`specdec rpc-server` on this machine."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

ServerFactory = Callable[[], tuple[str, "subprocess.Popen[bytes]"]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def rpc_servers(specdec: pathlib.Path) -> Iterator[ServerFactory]:
    """A function that starts a server, which listens, and returns its address; all end with the context."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[str, subprocess.Popen[bytes]]:
        port = free_port()
        process = subprocess.Popen(
            [specdec, "rpc-server", "--host", "localhost", "-p", str(port), "-t", "1"], stdout=subprocess.DEVNULL
        )
        running.append(process)
        for _ in range(500):
            assert process.poll() is None
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return f"127.0.0.1:{port}", process
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    try:
        yield start
    finally:
        for process in running:
            process.kill()
            process.wait()
