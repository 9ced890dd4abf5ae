"""Slots that clients choose, save, restore and erase."""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.running import PROMPT, DidNotStart, Server, serving, wait_until

TEXT = "import os\n\n" + "for name in os.listdir(folder):\n    print(name)\n" * 12


@pytest.fixture
def kept(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "slots"
    folder.mkdir()
    return folder


@pytest.fixture
def server(specdec: pathlib.Path, kept: pathlib.Path) -> Iterator[Server]:
    options = ["-np", "3", "-c", "2048", "--no-repack", "--cache-ram", "0", "--slot-save-path", kept]
    with serving(specdec, *options) as running:
        yield running


def complete(server: Server, slot: int, prompt: str = TEXT, **body: Any) -> Any:
    reply = server.post("/completion", {"prompt": prompt, "n_predict": 8, "seed": 1, "id_slot": slot, **body})
    assert reply.status == 200, reply.text
    if slot >= 0:
        assert reply.json["id_slot"] == slot
    return reply.json


def read(server: Server, slot: int, prompt: str = TEXT) -> int:
    """Tokens that were not cached."""
    count: int = complete(server, slot, prompt)["timings"]["prompt_n"]
    return count


def test_a_slot_is_saved_and_restored(server: Server, kept: pathlib.Path) -> None:
    first = complete(server, 1)
    assert first["timings"]["prompt_n"] > 200
    saved = server.post("/slots/1?action=save", {"filename": "one.bin"}).json
    assert saved["id_slot"] == 1 and saved["filename"] == "one.bin"
    assert saved["n_saved"] >= first["timings"]["prompt_n"]
    assert saved["n_written"] == (kept / "one.bin").stat().st_size and saved["timings"]["save_ms"] > 0
    assert server.post("/slots/1?action=erase", {}).json == {"id_slot": 1, "n_erased": saved["n_saved"]}
    assert server.post("/slots/1?action=erase", b"").json["n_erased"] == 0
    assert read(server, 2) > 200
    assert server.post("/slots/2?action=erase", {}).status == 200
    restored = server.post("/slots/0?action=restore", {"filename": "one.bin"}).json
    assert restored["n_restored"] == saved["n_saved"] and restored["n_read"] == saved["n_written"]
    again = complete(server, 0)
    assert again["timings"]["prompt_n"] == 1 and again["content"] == first["content"]
    assert server.post("/slots/2?action=restore", {"filename": "one.bin"}).json["id_slot"] == 2  # slot 1 is empty, too
    assert server.post("/slots/2?action=erase", {}).json["n_erased"] == saved["n_saved"]


def test_slots_keep_their_numbers(server: Server) -> None:
    """Whatever runs in the others, and wherever the engine moves them in its caches."""
    prompts = [TEXT, "class Stack:\n" * 40, "def bfs(graph, start):\n" * 30]
    for slot in (2, 0, 1):
        assert read(server, slot, prompts[slot]) > 100
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for _ in range(4):
            slots = list(range(3))
            answers = pool.map(lambda slot: complete(server, slot, prompts[slot], n_predict=24), slots)
            assert [answer["id_slot"] for answer in answers] == slots
    for slot in range(3):
        assert read(server, slot, prompts[slot]) < 3


def test_a_request_waits_for_its_slot_and_lets_others_pass(server: Server) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        long = pool.submit(complete, server, 1, PROMPT, n_predict=1500, ignore_eos=True)
        wait_until(lambda: server.get("/slots").json[1]["is_processing"])
        waiting = pool.submit(complete, server, 1)
        assert complete(server, -1)["id_slot"] != 1
        assert not waiting.done() or long.done()
        assert waiting.result()["id_slot"] == 1 and long.done()


def test_what_slots_do(server: Server) -> None:
    idle = server.get("/slots").json
    assert [slot["id"] for slot in idle] == [0, 1, 2] and not any(slot["is_processing"] for slot in idle)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long = pool.submit(complete, server, 2, PROMPT, n_predict=1500, ignore_eos=True, temperature=0.7)
        wait_until(lambda: server.get("/slots").json[2].get("next_token", {}).get("n_decoded", 0) > 0)
        slot = server.get("/slots").json[2]
        assert slot["is_processing"] and slot["n_ctx"] == 2048 and slot["speculative"]
        assert slot["params"]["temperature"] == 0.7 and slot["params"]["seed"] == 1
        assert slot["next_token"]["n_remain"] + slot["next_token"]["n_decoded"] == 1500
        assert "prompt" not in slot["params"]
        assert server.post("/slots/2?action=erase", {}).json["n_erased"] > 0  # once the request has ended
        assert long.result()["stop"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/etc/x", "a/b", "a\\b", "C:x", "x\n", ".hidden", "x" * 256, "dot.", "x\x00y"]
)
def test_file_names_are_no_paths(server: Server, name: str) -> None:
    for action in ("save", "restore"):
        reply = server.post(f"/slots/0?action={action}", {"filename": name})
        assert reply.status == 400 and reply.error["param"] == "filename"


def test_wrong_requests(server: Server, kept: pathlib.Path) -> None:
    (kept / "damaged.bin").write_bytes(b"x" * 1000)
    for name in ("damaged.bin", "none.bin"):
        reply = server.post("/slots/0?action=restore", {"filename": name})
        assert reply.status == 400 and name in reply.error["message"] and str(kept) not in reply.error["message"]
    assert server.post("/slots/0?action=save", {"filename": "empty.bin"}).status == 400  # nothing is cached
    assert server.post("/slots/3?action=erase", {}).status == 404
    assert server.post("/slots/0?action=other", {}).error["param"] == "action"
    assert server.post("/slots/0", {}).status == 400
    reply = server.post("/completion", {"prompt": PROMPT, "id_slot": 3})
    assert reply.status == 400 and reply.error["param"] == "id_slot"


def test_without_a_folder(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with serving(specdec, "--no-repack") as server:
        reply = server.post("/slots/0?action=save", {"filename": "x"})
        assert reply.status == 501 and "--slot-save-path" in reply.error["message"]
        assert server.post("/slots/0?action=erase", {}).json["n_erased"] == 0
    with pytest.raises(DidNotStart, match="no such folder"), serving(specdec, "--slot-save-path", tmp_path / "none"):
        pass


def test_props(server: Server) -> None:
    props = server.get("/props").json
    assert props["total_slots"] == 3 and props["default_generation_settings"]["n_ctx"] == 2048
    assert "temperature" in props["default_generation_settings"]["params"]
    assert props["modalities"] == {"vision": True, "audio": False}  # the digits' projector is beside the model
    assert props["chat_template"] == "" and props["build_info"] and props["model_path"].endswith(".gguf")
    assert isinstance(props["bos_token"], str) and isinstance(props["eos_token"], str)
