"""Layers on RPC servers, on loopback: bit-identical output; losing a server raises an error and does not end the
process."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.rpc_servers import ServerFactory, free_port, rpc_servers

import specdec_native as sd

PROMPT = "def bfs(graph, start):"


def greeted(host: str, port: int) -> socket.socket:
    """A connection that has exchanged the first messages."""
    for _ in range(500):
        with contextlib.suppress(OSError):
            client = socket.create_connection((host, port), timeout=60)
            client.sendall(bytes([14]) + struct.pack("<Q", 24) + bytes(24))
            if client.makefile("rb").read(36)[:8] == struct.pack("<Q", 28):
                return client
        time.sleep(0.02)
    raise AssertionError("nobody answers")


@pytest.fixture
def start_server(specdec: pathlib.Path) -> Iterator[ServerFactory]:
    with rpc_servers(specdec) as start:
        yield start


@pytest.fixture(scope="module")
def q8_0_path(
    specdec: pathlib.Path, target_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    path = tmp_path_factory.mktemp("models") / "q8_0.gguf"
    gguf_requantize(target_path, path)
    return path


def gguf_requantize(source: pathlib.Path, destination: pathlib.Path) -> None:
    """The same model with its matrices in Q8_0."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(destination, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=element)
    for tensor in reader.tensors:
        if len(tensor.shape) < 2:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        rows = gguf.quants.quantize(np.asarray(tensor.data, dtype=np.float32), gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(tensor.name, rows, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("command", [6, 10], ids=["set_tensor", "graph_compute"])
def test_a_message_of_impossible_length_ends_only_its_connection(start_server: ServerFactory, command: int) -> None:
    address, server = start_server()
    host, port = address.split(":")
    for _ in range(3):
        with greeted(host, int(port)) as client:
            client.sendall(bytes([command]) + struct.pack("<Q", 2**64 - 1))
            assert client.recv(1) == b""
    greeted(host, int(port)).close()  # it listens again
    expected = sd.Generator(n_threads=1).generate(PROMPT, max_tokens=8, seed=1, num_draft_tokens=0).pieces
    assert (
        sd.Generator(rpc=address, n_threads=1).generate(PROMPT, max_tokens=8, seed=1, num_draft_tokens=0).pieces
        == expected
    )
    assert server.poll() is None


@pytest.mark.parametrize("quantized", [False, True], ids=["f16", "q8_0"])
def test_the_text_is_the_local_one_to_the_bit(
    start_server: ServerFactory,
    target_path: pathlib.Path,
    draft_path: pathlib.Path,
    q8_0_path: pathlib.Path,
    quantized: bool,
) -> None:
    """Tokens and log-probabilities, greedy and sampled, with and without a draft: `specdec rpc-server` has our
    kernels."""
    target = q8_0_path if quantized else target_path
    address, _ = start_server()
    remote = sd.Generator(target, draft_path, rpc=address, n_threads=1)
    local = sd.Generator(target, draft_path, n_threads=1)
    for temperature in (0.0, 0.8):
        for num_draft_tokens in (0, 5):
            completions = [
                gen.generate(PROMPT, max_tokens=40, temperature=temperature, seed=3, num_draft_tokens=num_draft_tokens)
                for gen in (remote, local)
            ]
            assert completions[0].pieces == completions[1].pieces
            assert (completions[0].stats.accepted > 0) == (num_draft_tokens > 0)


def test_layers_on_two_servers_and_here(start_server: ServerFactory) -> None:
    addresses = [start_server()[0] for _ in range(2)]
    expected = sd.Generator(n_threads=1).generate(PROMPT, max_tokens=40, seed=5, num_draft_tokens=4).pieces
    for layers in (None, 3):
        gen = sd.Generator(rpc=addresses, n_gpu_layers=layers, n_threads=1)
        assert gen.generate(PROMPT, max_tokens=40, seed=5, num_draft_tokens=4).pieces == expected


def test_generators_in_two_threads_share_a_server(start_server: ServerFactory) -> None:
    address, _ = start_server()
    prompts = [PROMPT, "import os\n"]
    expected = [
        sd.Generator(n_threads=1).generate(prompt, max_tokens=60, temperature=0, num_draft_tokens=3).text
        for prompt in prompts
    ]
    generators = [sd.Generator(rpc=address, n_threads=1) for _ in prompts]
    texts = ["", ""]

    def generate(i: int) -> None:
        texts[i] = generators[i].generate(prompts[i], max_tokens=60, temperature=0, num_draft_tokens=3).text

    threads = [threading.Thread(target=generate, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == expected


def test_generators_come_and_go_on_a_server(start_server: ServerFactory) -> None:
    """A server drops its stored graphs whenever a client frees a buffer; passes of other generators must not rely on
    them."""
    address, _ = start_server()
    expected = sd.Generator(n_threads=1).generate(PROMPT, max_tokens=60, temperature=0, num_draft_tokens=0).pieces
    gen = sd.Generator(rpc=address, n_threads=1)
    pieces = []
    for piece in gen.stream(PROMPT, max_tokens=60, temperature=0, num_draft_tokens=0):
        pieces.append(piece)
        if len(pieces) in (20, 40):
            sd.Generator(rpc=address, n_threads=1).generate("import os\n", max_tokens=5)
    assert pieces == expected


def test_a_server_killed_in_the_middle_is_an_error(start_server: ServerFactory) -> None:
    (address, server), (other_address, _) = start_server(), start_server()
    gen = sd.Generator(rpc=[other_address, address], n_threads=1, num_draft_tokens=4)
    other = sd.Generator(rpc=other_address, n_threads=1)
    delivered = 0
    with pytest.raises(sd.ModelError, match=f"RPC server {address}: it closed the connection"):
        for piece in gen.stream(PROMPT, max_tokens=400, seed=1):
            delivered += 1
            assert piece.logprob <= 0
            if delivered == 10:
                server.kill()
                server.wait()
    assert 10 <= delivered < 20
    with pytest.raises(sd.ModelError, match=address):
        gen.generate(PROMPT)
    assert other.generate(PROMPT, max_tokens=5).finish_reason == "length"  # the process and the other server are well


def test_the_command_line_reports_a_killed_server(specdec: pathlib.Path, start_server: ServerFactory) -> None:
    address, server = start_server()
    command = [
        specdec,
        "generate",
        "-p",
        PROMPT,
        "-n",
        "100000",
        "-c",
        "4096",
        "-k",
        "0",
        "-t",
        "1",
        "--json",
        "--rpc",
        address,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith('{"token"')
    server.kill()
    process.stdout.read()
    assert f"\nspecdec generate: RPC server {address}: it closed the connection" in process.stderr.read()
    assert process.wait() == 1


# A server that disappears after the client has sent a given number of bytes: in the handshake, while weights are sent,
# or during generation. In a subprocess, because a regression would end the process.
VANISHING = """
import random, socket, sys, threading
import specdec_native as sd

def proxy(server, limit):
    listener = socket.create_server(("127.0.0.1", 0))
    def forward(source, sink, left, ends):
        while left > 0 and (data := source.recv(min(65536, left))):
            sink.sendall(data)
            left -= len(data)
        for end in ends:
            try: end.shutdown(socket.SHUT_RDWR)
            except OSError: pass
            end.close()
    def accept():
        while True:
            client, _ = listener.accept()
            upstream = socket.create_connection(server)
            for source, sink, left in ((client, upstream, limit), (upstream, client, 1 << 62)):
                arguments = (forward, source, sink, left, (client, upstream))
                threading.Thread(target=quietly, args=arguments, daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return "127.0.0.1:%d" % listener.getsockname()[1]

def quietly(function, *arguments):
    try: function(*arguments)
    except OSError: pass

host, port = sys.argv[1].split(":")
rng = random.Random(1)
limits = [10, 33, 40, 42, 43, 60, 100, 200, *(int(10 ** rng.uniform(2.5, 7.3)) for _ in range(12)), 1 << 62]
outcomes = []
for limit in limits:
    try:
        gen = sd.Generator(rpc=proxy((host, int(port)), limit), n_threads=1, num_draft_tokens=4)
        gen.generate("def bfs(graph, start):", max_tokens=60, seed=1)
        outcomes.append("text")
    except sd.ModelError as error:
        assert "RPC server" in str(error), error
        outcomes.append("lost")
    gen = None
print(*outcomes)
"""


def test_a_server_may_vanish_at_any_byte(start_server: ServerFactory) -> None:
    address, server = start_server()
    result = subprocess.run(
        [sys.executable, "-c", VANISHING, address], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    outcomes = result.stdout.split()
    assert len(outcomes) == 21
    assert outcomes[-1] == "text" and outcomes.count("lost") >= 14, outcomes
    assert server.poll() is None


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":50052", "localhost:0", "localhost:65536", "localhost:5x", "::1"]
)
def test_a_bad_address(address: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        sd.Generator(rpc=address)


def test_an_address_given_twice(start_server: ServerFactory) -> None:
    address, _ = start_server()
    with pytest.raises(ValueError, match="given twice"):
        sd.Generator(rpc=[address, address])


def test_nobody_listens(specdec: pathlib.Path) -> None:
    address = f"localhost:{free_port()}"
    with pytest.raises(sd.ModelError, match=f"RPC server {address}: cannot connect"):
        sd.Generator(rpc=address)
    with pytest.raises(sd.ModelError, match="no such host"):
        sd.Generator(rpc="no-such-host.invalid:1")
    result = subprocess.run(
        [specdec, "generate", "-p", "x", "--rpc", address], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and address in result.stderr and "specdec rpc-server" in result.stderr


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(40), "version"),
        ((28).to_bytes(8, "little") + bytes([3, 1, 0, 0]) + bytes(24), "it has version 3.1"),
    ],
)
def test_something_else_listens(answer: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1000)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(sd.ModelError, match=message):
            sd.Generator(rpc=f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_a_server_with_another_client_says_nothing(specdec: pathlib.Path, start_server: ServerFactory) -> None:
    address, _ = start_server()
    gen = sd.Generator(rpc=address, n_threads=1)
    result = subprocess.run(
        [specdec, "generate", "-p", "x", "--rpc", address], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and "one at a time" in result.stderr
    assert gen.generate(PROMPT, max_tokens=5).finish_reason == "length"
    del gen
    result = subprocess.run(
        [specdec, "generate", "-p", "x", "-n", "3", "--rpc", address], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_mxfp6_stays_here(
    specdec: pathlib.Path, start_server: ServerFactory, target_path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    mxfp6 = tmp_path / "mxfp6.gguf"
    subprocess.run([specdec, "quantize", target_path, mxfp6], check=True, capture_output=True)
    with pytest.raises(sd.ModelError, match="MXFP6 weights are computed on this machine only"):
        sd.Generator(mxfp6, rpc="localhost:1")  # before any server is asked
    address, _ = start_server()  # as a draft it is here anyway
    completion = sd.Generator(target_path, mxfp6, rpc=address).generate(
        PROMPT, max_tokens=30, temperature=0, num_draft_tokens=4
    )
    assert completion.text == sd.Generator(target_path).generate(PROMPT, max_tokens=30, temperature=0).text
    assert completion.stats.accepted > 0


def test_serving_warns_where_others_can_reach_it(specdec: pathlib.Path) -> None:
    """The port is in use, so that the command ends."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = str(listener.getsockname()[1])
        for host, warns in (("0.0.0.0", True), ("127.0.0.1", False)):
            command = [specdec, "rpc-server", "--host", host, "--port", port]
            result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
            assert result.returncode == 1
            assert ("controls this process" in result.stderr) == warns
            assert f"cannot listen on {host}:{port}" in result.stderr
