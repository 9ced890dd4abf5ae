"""Downloads over https and through proxies, as the environment says: SSL_CERT_FILE, HTTPS_PROXY, http_proxy,
NO_PROXY."""

from __future__ import annotations

import pathlib
import shutil
import ssl
import subprocess
from collections.abc import Iterator

import pytest
from tests.hub import fake_hub
from tests.hub.clients import Client
from tests.hub.fake_hub import FakeHub

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with an authority's certificate, ca.pem, and what it signed for this machine, server.pem and
    server.key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificates")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    uses = ["-days", "2", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl("req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=our own authority", *uses)
    openssl("req", *KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    openssl("x509", "-req", "-in", "server.csr", *signer, "-out", "server.pem", "-days", "2", "-extfile", "names")
    return folder


@pytest.fixture
def hub(certificates: pathlib.Path) -> Iterator[FakeHub]:
    """In place of the hub that speaks http."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    with fake_hub.running(tls) as server:
        assert server.endpoint.startswith("https://") and server.store.startswith("https://")
        yield server


def test_certificates_are_those_of_the_environment(
    client: Client, hub: FakeHub, tiny: bytes, certificates: pathlib.Path
) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    error = client.error("hf:some/tiny")
    assert "certificate" in error and "SSL_CERT_FILE" in error, error
    assert not hub.requests
    client.text("hf:some/tiny", SSL_CERT_FILE=str(certificates / "ca.pem"))
    assert len(hub.downloads()) == 1


def test_https_through_a_proxy(client: Client, hub: FakeHub, tiny: bytes, certificates: pathlib.Path) -> None:
    hub.add("some/private", {"tiny.gguf": tiny}, is_private=True)
    trusted = {"SSL_CERT_FILE": str(certificates / "ca.pem"), "HF_TOKEN": fake_hub.TOKEN}
    with fake_hub.running_proxy() as proxy:
        client.text("hf:some/private", HTTPS_PROXY=proxy.url, no_proxy="", **trusted)
    hosts = [url.removeprefix("https://") for url in (hub.endpoint, hub.store)]
    assert {*proxy.seen} == {f"CONNECT {host}" for host in hosts}
    assert len(hub.downloads()) == 1


def test_hosts_without_a_proxy(client: Client, hub: FakeHub, tiny: bytes, certificates: pathlib.Path) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    with fake_hub.running_proxy() as proxy:
        trusted = {"SSL_CERT_FILE": str(certificates / "ca.pem")}
        client.text("hf:some/tiny", HTTPS_PROXY=proxy.url, no_proxy="localhost,127.0.0.1", **trusted)
    assert not proxy.seen and len(hub.downloads()) == 1


def test_a_proxy_that_is_not_there(client: Client, hub: FakeHub, tiny: bytes) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    error = client.error("hf:some/tiny", HTTPS_PROXY="http://127.0.0.1:9", no_proxy="")
    assert "cannot be reached" in error and not hub.requests


def test_http_through_a_proxy(client: Client, tiny: bytes) -> None:
    with fake_hub.running() as plain, fake_hub.running_proxy() as proxy:
        plain.add("some/tiny", {"tiny.gguf": tiny})
        client.text("hf:some/tiny", HF_ENDPOINT=plain.endpoint, http_proxy=proxy.url, no_proxy="")
        assert len(plain.downloads()) == 1 and len(proxy.seen) == len(plain.requests)


def test_a_redirection_does_not_leave_https(
    binary: Client, hub: FakeHub, tiny: bytes, certificates: pathlib.Path
) -> None:
    hub.add("some/tiny", {"tiny.gguf": tiny})
    with fake_hub.running() as plain:
        plain.repositories = hub.repositories
        hub.store = plain.store
        error = binary.error("hf:some/tiny", SSL_CERT_FILE=str(certificates / "ca.pem"))
        assert "http" in error and not plain.requests
