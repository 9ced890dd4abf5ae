"""Several models in one server: --models-dir."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import shutil
import time
from collections.abc import Iterator

import pytest
from tests.server.running import PROMPT, DidNotStart, Server, serving, wait_until

OPTIONS = ["-np", "2", "-c", "16384", "--no-repack"]


@pytest.fixture
def folder(tmp_path: pathlib.Path, target_path: pathlib.Path, draft_path: pathlib.Path) -> pathlib.Path:
    """Models "large", "small" (in a folder of its own) and "broken", which is cut."""
    models = tmp_path / "models"
    (models / "small").mkdir(parents=True)
    shutil.copy(target_path, models / "large.gguf")
    shutil.copy(draft_path, models / "small" / "weights.gguf")
    shutil.copy(draft_path, models / "small" / "mmproj-weights.gguf")
    (models / "broken.gguf").write_bytes(draft_path.read_bytes()[:300_000])
    return models


@pytest.fixture
def server(specdec: pathlib.Path, folder: pathlib.Path) -> Iterator[Server]:
    with serving(specdec, "--models-dir", folder, "--models-max", "1", *OPTIONS) as running:
        yield running
        assert running.process.poll() is None, "the server died"


def status(server: Server, name: str) -> str:
    models = {model["id"]: model["status"] for model in server.get("/v1/models").json["data"]}
    value: str = models[name]["value"]
    return value


def text(server: Server, model: str, **body: object) -> str:
    reply = server.post("/v1/completions", {"model": model, "prompt": PROMPT, "max_tokens": 8, "seed": 1, **body})
    assert reply.status == 200, reply.text
    assert reply.json["model"] == model
    result: str = reply.json["choices"][0]["text"]
    return result


@contextlib.contextmanager
def busy(server: Server, model: str, max_tokens: int = 15_000) -> Iterator[http.client.HTTPResponse]:
    """A long answer of the model, whose client leaves at the end."""
    body = {"model": model, "prompt": PROMPT, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body))
    reply = connection.getresponse()
    assert reply.readline().startswith(b"data: ") and status(server, model) == "loaded"
    yield reply
    connection.close()


def test_requests_choose_their_model(specdec: pathlib.Path, server: Server, draft_path: pathlib.Path) -> None:
    assert [status(server, name) for name in ("broken", "large", "small")] == ["unloaded"] * 3
    small, large = text(server, "small"), text(server, "large.gguf".removesuffix(".gguf"))
    assert status(server, "large") == "loaded" and status(server, "small") == "unloaded"
    assert text(server, "small") == small and text(server, "large") == large
    props = server.get("/props?model=large").json
    assert props["model_path"].endswith("large.gguf") and props["total_slots"] == 2
    with serving(specdec, "-m", draft_path, *OPTIONS) as alone:
        assert alone.text(max_tokens=8, seed=1) == small


def test_names(server: Server) -> None:
    missing = server.post("/v1/completions", {"prompt": PROMPT})
    assert missing.status == 400 and missing.error["param"] == "model"
    assert '"broken", "large", "small"' in missing.error["message"]
    unknown = server.post("/v1/chat/completions", {"model": "other", "messages": [{"role": "user", "content": "x"}]})
    assert unknown.status == 404 and "other" in unknown.error["message"] and "large" in unknown.error["message"]
    reply = server.post("/tokenize", {"model": "small.gguf", "content": "x"})
    assert reply.status == 200 and reply.json["tokens"]
    assert server.post("/tokenize", {"model": "small:latest", "content": "x"}).status == 200
    assert server.get("/v1/models/large").json["id"] == "large" and server.get("/v1/models/x").status == 404
    assert server.get("/props").json["role"] == "router"
    assert server.get("/slots?model=large").status == 503  # it is not loaded, and nothing waits for it
    assert len(server.get("/slots?model=small").json) == 2


def test_a_damaged_model(server: Server) -> None:
    for _ in range(2):
        reply = server.post("/v1/completions", {"model": "broken", "prompt": PROMPT})
        assert reply.status == 500 and "the model broken could not be loaded" in reply.error["message"]
    listed = server.get("/v1/models/broken").json["status"]
    assert listed["value"] == "unloaded" and listed["failed"] and "broken.gguf" in listed["error"]
    assert text(server, "small")
    assert server.get("/health").status == 200


def test_what_runs_is_not_unloaded(server: Server) -> None:
    with busy(server, "large", 2000) as reply:
        answer = text(server, "small")  # waits
        assert answer and status(server, "large") == "unloaded"
        assert b"data: [DONE]" in reply.read()  # and nothing was cut off
    assert text(server, "small") == answer


def test_what_runs_is_unloaded_by_hand_once_it_has_ended(server: Server) -> None:
    with busy(server, "large", 2000) as reply:
        assert server.post("/models/unload", {"model": "large"}).json == {"success": True}
        later = text(server, "large")  # waits until it is loaded again
        assert b'"finish_reason":"length"' in reply.read()
    assert text(server, "large") == later


def test_a_client_that_leaves_costs_no_model(server: Server) -> None:
    with busy(server, "large"):
        with pytest.raises(TimeoutError):
            server.post("/v1/completions", {"model": "small", "prompt": PROMPT}, timeout=0.3)
        wait_until(lambda: server.num_unfinished() <= 1)
        assert status(server, "large") == "loaded" and status(server, "small") == "unloaded"


def test_the_one_not_used_for_the_longest_goes(
    specdec: pathlib.Path, folder: pathlib.Path, draft_path: pathlib.Path
) -> None:
    shutil.copy(draft_path, folder / "other.gguf")
    with serving(specdec, "--models-dir", folder, "--models-max", "2", *OPTIONS) as server:
        for name in ("small", "large", "small", "other"):
            text(server, name)
        assert [status(server, name) for name in ("small", "large", "other")] == ["loaded", "unloaded", "loaded"]


def test_many_at_once(server: Server) -> None:
    names = ["small", "large", "broken"] * 8
    expected = {"small": text(server, "small"), "large": text(server, "large")}

    def ask(name: str) -> tuple[int, str]:
        body = {"model": name, "prompt": PROMPT, "max_tokens": 8, "seed": 1}
        reply = server.post("/v1/completions", body)
        return reply.status, "" if reply.status != 200 else reply.json["choices"][0]["text"]

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for name, (code, answer) in zip(names, pool.map(ask, names), strict=True):
            assert (code, answer) == ((500, "") if name == "broken" else (200, expected[name]))
    assert server.num_unfinished() == 0


def test_loads_and_unloads_by_hand(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    with serving(specdec, "--models-dir", folder, "--no-models-autoload", *OPTIONS) as server:
        reply = server.post("/v1/completions", {"model": "small", "prompt": PROMPT})
        assert reply.status == 400 and "/models/load" in reply.error["message"]
        assert server.post("/models/unload", {"model": "small"}).status == 400
        assert server.post("/models/load", {"model": "small"}).json == {"success": True}
        wait_until(lambda: status(server, "small") == "loaded")
        assert text(server, "small")
        assert server.post("/models/unload", {"model": "small"}).json == {"success": True}
        wait_until(lambda: status(server, "small") == "unloaded")
        code, error = server.stop()
        assert code == 0, error


def test_a_stream_is_kept_alive_while_it_waits(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    options = ["--models-max", "1", "--sse-ping-interval", "1", *OPTIONS]
    schema = {"properties": {"a long name": {"type": "string"}}, "required": ["a long name"]}
    schema |= {"type": "object", "not": {"required": ["a"]}}
    body = {"model": "small", "prompt": PROMPT, "max_tokens": 4, "stream": True}
    not_strict = {"guided_json": schema, "strict_schema": False}
    with serving(specdec, "--models-dir", folder, *options) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        with busy(server, "large"):
            waiting = pool.submit(server.post, "/v1/completions", {**body, **not_strict})
            time.sleep(2.5)
            assert not waiting.done() and status(server, "large") == "loaded"
        reply = waiting.result()
        assert reply.text.startswith(": loading the model")
        assert '\n: X-Ignored-Schema-Keywords: ["/not"]\n' in reply.text  # the headers were sent before
        assert reply.events[-1]["choices"][0]["finish_reason"] == "length"
        failed = server.post("/v1/completions", {**body, "model": "broken"})  # quickly: the status can still say it
        assert failed.status == 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-m", "x.gguf"], "leave out -m, -md and -a"),
        (["--alias", "x"], "leave out -m, -md and -a"),
    ],
)
def test_options_that_exclude_each_other(
    specdec: pathlib.Path, folder: pathlib.Path, options: list[str], message: str
) -> None:
    with pytest.raises(DidNotStart, match=message), serving(specdec, "--models-dir", folder, *options):
        pass


def test_folders_without_models(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(DidNotStart, match="there is no model"), serving(specdec, "--models-dir", tmp_path):
        pass
    with pytest.raises(DidNotStart, match="No such file"), serving(specdec, "--models-dir", tmp_path / "none"):
        pass


def test_the_models_of_the_hubs_cache(specdec: pathlib.Path, tmp_path: pathlib.Path, draft_path: pathlib.Path) -> None:
    commit = "0123456789" * 4
    for repository, names in {"models--some--small": ["a.gguf", "b.gguf"], "models--other--one": ["q4/c.gguf"]}.items():
        for name in names:
            file = tmp_path / repository / "snapshots" / commit / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(draft_path, file)
        (tmp_path / repository / "refs").mkdir()
        (tmp_path / repository / "refs" / "main").write_text(commit)
    with serving(specdec, "--models-dir", "hub", *OPTIONS, HF_HUB_CACHE=str(tmp_path)) as server:
        names = [model["id"] for model in server.get("/v1/models").json["data"]]
        assert names == ["other/one/q4/c", "some/small/a", "some/small/b"]
        assert text(server, "some/small/b") and status(server, "some/small/b") == "loaded"
        assert server.get("/v1/models/other/one/q4/c").json["id"] == "other/one/q4/c"
        assert text(server, "other/one/q4/c")
    with (
        pytest.raises(DidNotStart, match=r"the hub's cache has no model .* `specdec models pull"),
        serving(specdec, "--models-dir", "hub", HF_HUB_CACHE=str(tmp_path / "none")),
    ):
        pass


def test_idle_models_are_unloaded(specdec: pathlib.Path, folder: pathlib.Path) -> None:
    with serving(specdec, "--models-dir", folder, "--idle-unload", "1", *OPTIONS) as server:
        before = text(server, "small")
        wait_until(lambda: status(server, "small") == "unloaded")  # looking does not count as a use
        assert text(server, "small") == before

        def generate(keep: object, **more: object) -> dict[str, object]:
            body = {"model": "small", "keep_alive": keep, "stream": False, "options": {"num_predict": 1}, **more}
            reply = server.post("/api/generate", body)
            assert reply.status == 200, reply.text
            result: dict[str, object] = reply.json
            return result

        def expiry() -> str:
            (model,) = server.get("/api/ps").json["models"]
            end: str = model["expires_at"]
            return end

        for forever in (-1, "-1m", -0.5):
            generate(forever, prompt=PROMPT)
            assert expiry().startswith("9999")
        generate("1h30m", prompt=PROMPT)
        assert not expiry().startswith("9999")
        generate("500ms", prompt=PROMPT)
        wait_until(lambda: status(server, "small") == "unloaded")
        generate(0, prompt=PROMPT)
        wait_until(lambda: status(server, "small") == "unloaded")
        generate(300, prompt=PROMPT)
        assert generate(0)["done_reason"] == "unload"
        wait_until(lambda: status(server, "small") == "unloaded")
        assert generate(0)["done_reason"] == "unload"
        for wrong in ("x", [], "5x", "", "-", "m"):
            body = {"model": "small", "prompt": PROMPT, "keep_alive": wrong}
            reply = server.post("/api/generate", body)
            assert reply.status == 400 and "keep_alive" in reply.json["error"], (wrong, reply.text)
