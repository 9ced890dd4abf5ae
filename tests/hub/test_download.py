"""Models by name, from a local server that speaks the hub's protocol, with the Python package and the binary.

They share one cache.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import time

import pytest
from tests.hub import fake_hub
from tests.hub.clients import CLIENTS, Client, client_of
from tests.hub.fake_hub import FakeHub, sha256
from tests.models.tiny_models import make


def test_a_model_is_downloaded_once_into_the_cache(client: Client, hub: FakeHub, tiny: bytes) -> None:
    repository = hub.add(
        "some/tiny-GGUF", {"README.md": b"x", "tiny-Q4_K_M.gguf": tiny, "tiny-Q8_0.gguf": tiny + bytes(32)}
    )
    first = client.text("hf:some/tiny-GGUF")
    assert len(hub.downloads()) == 1
    folder = client.cache / "models--some--tiny-GGUF"
    link = folder / "snapshots" / repository.commit / "tiny-Q4_K_M.gguf"
    assert link.is_symlink() and not os.path.isabs(os.readlink(link)) and link.read_bytes() == tiny
    assert link.resolve() == (folder / "blobs" / sha256(tiny)).resolve()
    assert (folder / "refs" / "main").read_text() == repository.commit
    assert [path.name for path in (folder / "blobs").iterdir()] == [sha256(tiny)]
    assert client.text("hf:some/tiny-GGUF") == first and len(hub.downloads()) == 1
    assert client.text("hf:some/tiny-GGUF", HF_HUB_OFFLINE="1") == first


@pytest.mark.parametrize("order", [CLIENTS, CLIENTS[::-1]])
def test_one_download_serves_both(
    order: list[str], specdec: pathlib.Path, hub: FakeHub, tmp_path: pathlib.Path, tiny: bytes
) -> None:
    hub.add("some/tiny", {"tiny-F16.gguf": tiny})
    texts = {client_of(kind, specdec, hub, tmp_path).text("hf:some/tiny:F16") for kind in order}
    assert len(texts) == 1 and len(hub.downloads()) == 1


def test_a_pair(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/big", {"big-Q4_K_M.gguf": tiny})
    hub.add("some/small", {"small-Q8_0.gguf": tiny})
    assert client.text("hf:some/big", "hf:some/small:q8_0") == client.text("hf:some/big")
    assert len(hub.downloads()) == 2


def test_split_models(client: Client, hub: FakeHub, tmp_path: pathlib.Path) -> None:
    model = make("llama", seed=1)
    model.write(tmp_path / "m.gguf", tensors_per_file=8)
    files = {path.name: path.read_bytes() for path in tmp_path.glob("m-0*.gguf")}
    assert len(files) >= 2
    hub.add("some/split", files)
    whole = model.write(tmp_path / "whole.gguf").read_bytes()
    hub.add("some/whole", {"whole.gguf": whole})
    assert client.text("hf:some/split") == client.text("hf:some/whole")
    assert len(hub.downloads()) == len(files) + 1


def test_a_cut_download_goes_on(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny + bytes(25_000_000)})
    hub.cuts = [15_000_000]
    client.text("hf:some/tiny")
    first, second = (request.headers.get("range") for request in hub.downloads())
    received = (
        15_000_000 if client.kind == "binary" else 10 << 20
    )  # huggingface_hub drops the unfinished one of its pieces
    assert (first, second) == (None, f"bytes={received}-")


def test_a_killed_download_goes_on(binary: Client, hub: FakeHub, tiny: bytes) -> None:
    """Across processes in the binary only: huggingface_hub starts again."""
    hub.add("some/tiny", {"tiny.gguf": tiny})
    hub.stall = 50_000
    process = binary.start("hf:some/tiny")
    part = binary.cache / "models--some--tiny" / "blobs" / (sha256(tiny) + ".incomplete")
    while not part.exists() or part.stat().st_size < 50_000:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = len(hub.downloads())
    binary.text("hf:some/tiny")
    assert [request.headers.get("range") for request in hub.downloads()[before:]] == ["bytes=50000-"]


def test_a_server_without_ranges_sends_all_again(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    hub.cuts, hub.ranges = [100_000], False
    client.text("hf:some/tiny")


def test_a_wrong_checksum_is_never_used(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    hub.corrupt = 2
    assert "tiny.gguf: the download has another size or checksum than the hub states" in client.error("hf:some/tiny")
    assert not [path for path in client.cache.rglob("*") if path.is_file() and path.stat().st_size == len(tiny)]
    hub.corrupt = 0
    client.text("hf:some/tiny")


def test_one_wrong_download_is_repeated(binary: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    hub.corrupt = 1
    result = binary.run("hf:some/tiny")
    assert (
        result.returncode == 0
        and "another size or checksum than the hub states; downloading it once more" in result.stderr
    )


def test_a_stale_part_is_dropped(binary: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    part = binary.cache / "models--some--tiny" / "blobs" / (sha256(tiny) + ".incomplete")
    part.parent.mkdir(parents=True)
    for content in (b"x" * 1000, b"x" * (len(tiny) + 5), b"x" * len(tiny)):
        part.write_bytes(content)
        binary.text("hf:some/tiny")
        (part.parent / sha256(tiny)).unlink()


def test_the_token_is_for_the_hub_only(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/private", {"tiny.gguf": tiny}, is_private=True)
    assert "some/private does not exist, or is private" in client.error("hf:some/private")
    client.text("hf:some/private", HF_TOKEN=fake_hub.TOKEN)
    assert len(hub.downloads()) == 1 and "authorization" not in hub.downloads()[0].headers
    assert fake_hub.TOKEN not in client.error("hf:some/none", HF_TOKEN=fake_hub.TOKEN)


def test_the_token_of_a_login_is_used(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/private", {"tiny.gguf": tiny}, is_private=True)
    client.cache.parent.mkdir(parents=True)
    (client.cache.parent / "token").write_text(fake_hub.TOKEN + "\n")
    client.text("hf:some/private")


def test_a_gated_model_says_what_to_do(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/gated", {"tiny.gguf": tiny}, is_gated=True)
    for environment in ({}, {"HF_TOKEN": fake_hub.TOKEN}):  # 401, then 403
        error = client.error("hf:some/gated", **environment)
        assert (
            "some/gated is gated" in error
            and f"accept its conditions at {hub.endpoint}/some/gated and set HF_TOKEN" in error
        )


def test_what_the_server_asks_to_wait_is_waited(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    hub.answers = [(429, {"Retry-After": "1"}), (503, {})]
    start = time.monotonic()
    result = client.run("hf:some/tiny")
    assert result.returncode == 0 and time.monotonic() - start >= 3
    if client.kind == "binary":
        assert (
            "HTTP 429; trying again in 1 second" in result.stderr
            and "HTTP 503; trying again in 2 seconds" in result.stderr
        )


def test_a_long_wait_is_an_error(binary: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    hub.answers = [(429, {"Retry-After": "3600"})]
    assert "the hub asks to wait 3600 seconds (HTTP 429)" in binary.error("hf:some/tiny")


def test_the_disk_is_checked_first(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/huge", {"huge.gguf": tiny}, stated_sizes={"huge.gguf": 10**15})
    error = client.error("hf:some/huge")
    assert "hf:some/huge needs 1000000.00 GB" in error and "set HF_HOME to a folder on another disk" in error
    assert not hub.downloads()


def test_a_wrong_size_is_an_error(client: Client, hub: FakeHub, tiny: bytes) -> None:
    for size in (len(tiny) - 7, len(tiny) + 7):
        hub.add("some/tiny", {"tiny.gguf": tiny}, stated_sizes={"tiny.gguf": size})
        client.error("hf:some/tiny")
        assert not list(client.cache.glob("*/snapshots/*/*.gguf"))


def test_two_processes_at_once(client: Client, hub: FakeHub, tiny: bytes) -> None:
    content = tiny + bytes(20_000_000)
    hub.add("some/tiny", {"tiny.gguf": content})
    both = [client.start("hf:some/tiny") for _ in range(2)]
    outputs = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0] and len(hub.downloads()) == 1


def test_offline_and_unreachable(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    assert "hf:some/tiny is not in the cache" in client.error("hf:some/tiny", HF_HUB_OFFLINE="1")
    assert not hub.requests
    closed = "http://127.0.0.1:9"
    text = client.text("hf:some/tiny")
    if client.kind == "binary":
        result = client.run("hf:some/tiny", HF_ENDPOINT=closed)
        assert result.stdout == text and "using the cached hf:some/tiny" in result.stderr
        assert "is not in the cache" in client.error("hf:some/other", HF_ENDPOINT=closed)
    else:
        assert client.text("hf:some/tiny", HF_ENDPOINT=closed) == text


def test_names_that_are_wrong(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny-Q8_0.gguf": tiny, "tiny-F16.gguf": tiny})
    hub.add("some/safetensors", {"model.safetensors": b"x"})
    assert "some/tiny has no file with Q5_K_M in its name; it has tiny-F16.gguf, tiny-Q8_0.gguf" in client.error(
        "hf:some/tiny:Q5_K_M"
    )
    assert "some/safetensors has no GGUF files" in client.error("hf:some/safetensors")
    assert "some/none does not exist" in client.error("hf:some/none")
    result = client.run("hf:none")
    assert result.returncode in (1, 2) and "OWNER/REPO" in result.stderr


def test_a_server_that_is_no_hub(binary: Client, hub: FakeHub) -> None:
    hub.answers = [(200, {})]
    assert "is HF_ENDPOINT a hub?" in binary.error("hf:some/tiny")


def test_a_listing_cannot_lead_out_of_the_cache(
    binary: Client, hub: FakeHub, tiny: bytes, tmp_path: pathlib.Path
) -> None:
    hub.add("some/evil", {"../../../../evil.gguf": tiny, "/evil.gguf": tiny})
    assert "some/evil has no GGUF files" in binary.error("hf:some/evil")
    assert not list(tmp_path.rglob("evil.gguf"))


def test_without_libcurl(binary: Client) -> None:
    assert "downloads need libcurl, which is not installed (Debian" in binary.error(
        "hf:some/tiny", SPECDEC_LIBCURL="/none"
    )


def test_without_huggingface_hub(python: Client, tmp_path: pathlib.Path) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError")
    error = python.error("hf:some/tiny", PYTHONPATH=str(tmp_path))
    assert (
        error
        == '"hf:some/tiny" is on the Hugging Face hub: pip install "specdec_native[hub]", or give the path of a file'
    )


def test_info_and_quantize_take_names(binary: Client, hub: FakeHub, tiny: bytes, tmp_path: pathlib.Path) -> None:
    hub.add("some/tiny", {"tiny-F32.gguf": tiny})
    specdec, out = str(binary.specdec), tmp_path / "out.gguf"
    commands = [["info", "hf:some/tiny"], ["quantize", "hf:some/tiny:F32", str(out)]]
    for command in commands:
        result = subprocess.run(
            [specdec, *command], env=binary.environment, capture_output=True, text=True, timeout=100
        )
        assert result.returncode == 0 and result.stdout, result.stderr
    assert out.exists() and len(hub.downloads()) == 1
