"""Files whose names are no UTF-8 text, as old archives and other encodings leave them: they work like any other, and
what is written about them stays valid text."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from tests.models.tiny_models import make
from tests.server.running import serving

import specdec_native as sd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    """pathlib has such bytes as surrogates."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    return make("llama", seed=4).write(folder / os.fsdecode(b"m\xff.gguf"))


def run(specdec: pathlib.Path, *arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    line = [os.fsencode(str(argument)) for argument in (specdec, *arguments)]
    result = subprocess.run(line, input=given, capture_output=True, timeout=60, check=False)
    result.stderr.decode()
    return result


def test_commands(specdec: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    prompt = model.with_name(os.fsdecode(b"p\xe9.txt"))
    prompt.write_text("import os\n")
    options = ["-m", model, "-md", "none", "-t", 1, "-n", 3, "--temp", 0]
    plain = run(specdec, "generate", *options, "-p", "import os")
    assert plain.returncode == 0 and plain.stdout
    assert run(specdec, "generate", *options, "-f", prompt).stdout == plain.stdout
    last = run(specdec, "generate", *options, "-f", prompt, "--json").stdout.splitlines()[-1]
    assert json.loads(last)["stats"]["prompt_tokens"] > 0
    info = run(specdec, "info", model, "--json")
    assert info.returncode == 0 and json.loads(info.stdout.decode())["parts"]
    saved = model.with_name(os.fsdecode(b"saved\xe9.json"))
    chat = run(specdec, "chat", "--lines", *options, given=os.fsencode(f"hello\n/show\n/save {saved}\n"))
    assert chat.returncode == 1 and b"not UTF-8" in chat.stderr, "what is typed is text"
    quantized = model.with_name(os.fsdecode(b"q\xe9.gguf"))
    assert run(specdec, "quantize", model, quantized).returncode == 0 and quantized.exists()
    missing = run(specdec, "generate", "-m", os.fsdecode(b"none\xe9.gguf"), "-md", "none", "-p", "x")
    assert missing.returncode == 1 and "none" in missing.stderr.decode()


def test_a_server(specdec: pathlib.Path, model: pathlib.Path) -> None:
    """Its replies are JSON, in which the bytes are replaced."""
    for options in (["-m", model, "-md", "none"], ["--models-dir", model.parent]):
        with serving(specdec, *options, "-t", 1) as server:
            (known,) = server.get("/v1/models").json["data"]
            assert "\ufffd" in known["id"]
            if options[0] == "-m":
                assert server.get("/props").status == 200
                assert server.complete(prompt="import os", max_tokens=2)["model"] == known["id"]


def test_python(model: pathlib.Path) -> None:
    plain = model.rename(model.with_name("plain.gguf"))
    with sd.Generator(plain, None, num_draft_tokens=0, n_threads=1, n_ctx=128) as gen:
        expected = gen.generate("import os", max_tokens=4, temperature=0).tokens
    odd = plain.rename(model)
    cache = model.with_name(os.fsdecode(b"cache\xe9"))
    for path in (odd, str(odd)):
        with sd.Generator(path, None, num_draft_tokens=0, n_threads=1, n_ctx=128) as gen:
            assert gen.generate("import os", max_tokens=4, temperature=0).tokens == expected
            assert gen.save_prefix(cache) > 0 and cache.exists() and gen.load_prefix(cache) > 0
