"""Pictures by the APIs of OpenAI, Anthropic, Ollama and llama-server, with their own clients; and on the page."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import ollama
import openai
import pytest
from tests.models.projectors import make_pair, random_picture
from tests.server.browsing import Page
from tests.server.running import Server, serving

from specdec_native._pictures import pictures_of

PNG, OTHER = (pictures_of("images", random_picture(40, 30, seed))[0][1] for seed in (1, 2))
QUESTION = "What is it?"


def base64_of(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def url_of(picture: bytes) -> str:
    return "data:image/png;base64," + base64_of(picture)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("pair")
    make_pair("llava", seed=1).write(folder)
    return folder / "target.gguf"


@pytest.fixture(scope="module")
def seeing(specdec: pathlib.Path, pair: pathlib.Path) -> Iterator[Server]:
    options = ["-m", pair, "--draft", "suffix", "-c", "700", "--chat-template", "chatml", "--temp", "0"]
    with serving(specdec, *options) as server:
        yield server


def chat(server: Server, content: Any, **more: Any) -> Any:
    return server.post(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 12, **more}
    )


def parts(*pictures: bytes) -> list[dict[str, Any]]:
    images: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url_of(one)}} for one in pictures]
    return [*images, {"type": "text", "text": QUESTION}]


@pytest.fixture(scope="module")
def answers(seeing: Server) -> dict[bytes, str]:
    return {one: chat(seeing, parts(one)).json["choices"][0]["message"]["content"] for one in (PNG, OTHER)}


def test_answers_differ(answers: dict[bytes, str]) -> None:
    assert answers[PNG] != answers[OTHER]


def test_openai(seeing: Server, answers: dict[bytes, str]) -> None:
    client = openai.OpenAI(base_url=seeing.url + "/v1", api_key="none", max_retries=0)
    for picture, answer in answers.items():
        content: Any = parts(picture)
        reply = client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": content}], max_tokens=12, temperature=0
        )
        assert reply.choices[0].message.content == answer
        items: Any = [
            {"type": "input_image", "image_url": url_of(picture), "detail": "auto"},
            {"type": "input_text", "text": QUESTION},
        ]
        response = client.responses.create(
            model="any", input=[{"role": "user", "content": items}], max_output_tokens=12, temperature=0
        )
        assert response.output_text == answer


def test_anthropic(seeing: Server, answers: dict[bytes, str]) -> None:
    client = anthropic.Anthropic(api_key="none", base_url=seeing.url, max_retries=0)
    for picture, answer in answers.items():
        source = {"type": "base64", "media_type": "image/png", "data": base64_of(picture)}
        blocks: Any = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
        messages: Any = [{"role": "user", "content": blocks}]
        message = client.messages.create(model="any", messages=messages, max_tokens=12, extra_body={"temperature": 0})
        assert "".join(block.text for block in message.content if block.type == "text") == answer
        count = client.messages.count_tokens(model="any", messages=messages)
        assert count.input_tokens == message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_ollama(seeing: Server, answers: dict[bytes, str], tmp_path: pathlib.Path) -> None:
    client = ollama.Client(host=seeing.url)
    for picture, answer in answers.items():
        path = tmp_path / "a.png"
        path.write_bytes(picture)
        options = {"num_predict": 12, "temperature": 0}
        reply = client.chat(
            model="any", messages=[{"role": "user", "content": QUESTION, "images": [path]}], options=options
        )
        assert reply.message.content == answer
        assert client.generate(model="any", prompt=QUESTION, images=[picture], options=options).response == answer


def test_llama_server(seeing: Server) -> None:
    texts = []
    for pictures in ([PNG], [OTHER], [PNG, OTHER]):
        prompt = {
            "prompt_string": "<__media__>" * len(pictures) + " a",
            "multimodal_data": [base64_of(one) for one in pictures],
        }
        reply = seeing.post("/completion", {"prompt": prompt, "n_predict": 8, "temperature": 0})
        assert reply.status == 200, reply.text
        texts.append(reply.json["content"])
    assert texts[0] != texts[1]
    assert seeing.get("/props").json["modalities"] == {"vision": True, "audio": False}


def test_results_of_tools(seeing: Server) -> None:
    def ask(picture: bytes) -> Any:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages = [
            {"role": "user", "content": "look"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": parts(picture)},
        ]
        return seeing.post("/v1/chat/completions", {"messages": messages, "max_tokens": 12})

    first, second = ask(PNG), ask(OTHER)
    assert first.status == second.status == 200, first.text
    assert first.json["choices"][0]["message"] != second.json["choices"][0]["message"]


def test_the_second_question_is_cached(seeing: Server) -> None:
    chat(seeing, parts(PNG))
    usage = chat(seeing, [*parts(PNG), {"type": "text", "text": "Really?"}]).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 64


def test_bad_pictures_name_their_place(seeing: Server) -> None:
    def error(content: Any) -> str:
        reply = chat(seeing, content)
        assert reply.status == 400, reply.text
        return str(reply.json["error"]["message"])

    place = "messages[0].content[0].image_url.url"

    def image(url: Any) -> list[dict[str, Any]]:
        return [{"type": "image_url", "image_url": {"url": url}}]

    assert place in error(image("data:image/png;base64,????"))
    assert place in error(image("data:image/png,abc"))
    assert "fetches nothing" in error(image("https://example.org/a.png"))
    assert "fetches nothing" in error(image("file:///etc/passwd"))
    assert "not a picture" in error(image("/etc/passwd"))  # base64, as it happens
    assert "WebP" in error(image("data:image/webp;base64," + base64_of(b"RIFF\x10\0\0\0WEBPVP8 ")))
    assert "not a picture" in error(image(url_of(b"hello")))
    assert "image_url" in error([{"type": "image_url"}])
    assert "audio" in error([{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}])
    body = {"model": "any", "messages": [{"role": "user", "content": "x", "images": ["!"]}]}
    assert "messages[0].images[0]" in seeing.post("/api/chat", body).text
    lost = {"prompt": {"prompt_string": "x", "multimodal_data": [base64_of(PNG)]}}
    assert "<__media__>" in seeing.post("/completion", lost).text
    assert seeing.get("/health").status == 200


def test_a_model_that_reads_none(specdec: pathlib.Path, pair: pathlib.Path) -> None:
    with serving(specdec, "-m", pair, "-c", "200", "--mmproj", "none") as server:
        reply = chat(server, parts(PNG))
        assert reply.status == 400 and "--mmproj" in reply.json["error"]["message"]
        assert server.get("/props").json["modalities"]["vision"] is False


def test_a_client_cannot_spell_a_mark(seeing: Server) -> None:
    """Neither llama.cpp's mark nor one that looks like ours stands for a picture in a message."""
    for text in ("<__media__>", "<__picture_0_0__>"):
        with_picture = chat(seeing, [*parts(PNG), {"type": "text", "text": text}])
        assert with_picture.status == 200, with_picture.text
        assert with_picture.json["usage"]["prompt_tokens"] > 100
        assert chat(seeing, text).json["usage"]["prompt_tokens"] < 100


def test_urls_of_this_machine_are_refused(specdec: pathlib.Path, pair: pathlib.Path, seeing: Server) -> None:
    """A server that fetches pictures must not be a way into the network that it stands in."""
    with serving(specdec, "-m", pair, "-c", "700", "--chat-template", "chatml", "--allow-image-urls") as server:
        port = seeing.url.rsplit(":", 1)[1]
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "0"):
            url = f"http://{host}:{port}/health"
            reply = chat(server, [{"type": "image_url", "image_url": {"url": url}}])
            assert reply.status == 400, reply.text
            message = reply.json["error"]["message"]
            assert "its address is not public" in message or "connect" in message.lower(), message
        assert (
            "fetches nothing" in chat(server, [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]).text
        )


def test_old_pictures_are_dropped_with_their_turns(specdec: pathlib.Path, pair: pathlib.Path) -> None:
    options = ["-m", pair, "-c", "200", "--chat-template", "chatml", "--context-overflow", "drop", "-k", "0"]
    with serving(specdec, *options) as server:
        messages: list[Any] = []
        for picture in (PNG, OTHER, PNG, OTHER):
            messages += [{"role": "user", "content": parts(picture)}, {"role": "assistant", "content": "ok"}]
        messages.append({"role": "user", "content": parts(PNG)})
        reply = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4})
        assert reply.status == 200, reply.text
        assert reply.json["usage"]["prompt_tokens"] < 200


def test_the_program(
    specdec: pathlib.Path,
    pair: pathlib.Path,
    tmp_path: pathlib.Path,
    answers: dict[bytes, str],
    run: Callable[..., Any],
) -> None:
    common = ["-m", pair, "-c", "700", "--temp", "0", "-n", "12", "--chat-template", "chatml"]
    for picture, answer in answers.items():
        path = tmp_path / "a.png"
        path.write_bytes(picture)
        done = run(["generate", *common, "--chat", "--image", path, "-p", QUESTION, "--no-stats"])
        assert done.strip() == answer.strip()
        lines = tmp_path / "lines.jsonl"
        content = [{"type": "image_url", "image_url": {"url": str(path)}}, {"type": "text", "text": QUESTION}]
        lines.write_text(json.dumps({"messages": [{"role": "user", "content": content}]}) + "\n")
        run(["generate", *common, "--prompts", lines, "--output", tmp_path / "out.jsonl", "--force"])
        assert json.loads((tmp_path / "out.jsonl").read_text())["message"]["content"] == answer
        assert answer.strip() in run(["chat", *common, "--image", path, "-st", "-p", QUESTION])
    with pytest.raises(AssertionError, match=r"none\.png"):
        run(["generate", *common, "--chat", "--image", tmp_path / "none.png", "-p", "x"])


@pytest.fixture(scope="module")
def run(specdec: pathlib.Path) -> Callable[..., str]:
    import subprocess

    def of(arguments: list[Any]) -> str:
        done = subprocess.run(
            [specdec, *map(str, arguments)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return of


def test_the_page_takes_a_dropped_picture(
    seeing: Server, page_of: Callable[[str], Page], answers: dict[bytes, str]
) -> None:
    page = page_of(seeing.url)
    page.run(
        """
        const bytes = Uint8Array.from(atob(arguments[0]), (letter) => letter.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], "a.png", { type: "image/png" }));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
        """,
        base64_of(PNG),
    )
    page.wait(lambda: page.all("#attached .picture img"))
    page.ask(QUESTION)
    assert page.run("return document.querySelector('.user .picture img').naturalWidth") == 40
