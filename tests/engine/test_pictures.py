"""Pictures: the text and its log-probabilities are those without drafts, for every family of projectors, whatever the
drafts, whatever shares the passes, with what is cached and without."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.models.projectors import FAMILIES, make_pair, random_picture

import specdec_native as sd

CONTEXT = 700
TOKENS = 20
QUESTION = " a b c what is it? a b"
Files = tuple[pathlib.Path, pathlib.Path, pathlib.Path]  # target, projector, draft


def files_of(name: str, folder: pathlib.Path) -> Files:
    pair = make_pair(name, seed=1)
    target, projector = pair.write(folder)
    other = make_pair(name, seed=2)
    return target, projector, other.target.write(folder / "draft.gguf")


@pytest.fixture(scope="module", params=FAMILIES)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_of(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_of("llava", tmp_path_factory.mktemp("pictures"))


def generator(files: Files, **options: Any) -> sd.Generator:
    options = {"n_threads": 2, "n_ctx": CONTEXT, "auto_cache": False, "suffix": False} | options
    draft = options.pop("draft", None)
    return sd.Generator(files[0], draft, mmproj=files[1], **options)


def answer(gen: sd.Generator, images: Any, prompt: str = QUESTION, temperature: float = 0.0, **options: Any) -> Any:
    stream = gen.stream(
        prompt, images=images, max_tokens=TOKENS, temperature=temperature, seed=3, ignore_eos=True, **options
    )
    return [(piece.token, piece.logprob) for piece in stream]


PICTURES = [random_picture(40, 24, 1), random_picture(32, 32, 2)]


@pytest.fixture(scope="module")
def expected(files: Files) -> Iterator[list[Any]]:
    """Of each picture, of both, and of none: greedy, then sampled."""
    with generator(files, num_draft_tokens=0) as gen:
        yield [
            answer(gen, images, temperature=temperature)
            for temperature in (0.0, 1.0)
            for images in ([PICTURES[0]], [PICTURES[1]], PICTURES, None)
        ]


def check_answers(gen: sd.Generator, expected: list[Any]) -> None:
    for temperature in (0.0, 1.0):
        for images in ([PICTURES[0]], [PICTURES[1]], PICTURES, None):
            assert answer(gen, images, temperature=temperature) == expected.pop(0)


@pytest.mark.parametrize("draft", ["itself", "another", "suffix"])
@pytest.mark.parametrize("count", [1, 4, "auto"])
def test_any_draft_gives_the_same(files: Files, expected: list[Any], draft: str, count: int | str) -> None:
    path = {"itself": files[0], "another": files[2], "suffix": "suffix"}[draft]
    with generator(files, draft=path, num_draft_tokens=count) as gen:
        check_answers(gen, list(expected))
        # The same file sees no pictures as a draft.
        if draft == "itself" and count == 4:
            assert gen.generate(QUESTION, images=PICTURES[0], max_tokens=TOKENS, temperature=0).stats.drafted > 0


def test_the_answer_depends_on_the_picture(expected: list[Any]) -> None:
    greedy = expected[:4]
    logprobs = [[logprob for _, logprob in one] for one in greedy]
    assert all(a != b for i, a in enumerate(logprobs) for b in logprobs[:i])


def test_trees_and_windows(files: Files, expected: list[Any]) -> None:
    for options in ({"draft_tree": 9}, {"draft_window": 64}):
        with generator(files, draft=files[2], **options) as gen:
            check_answers(gen, list(expected))


def test_requests_share_passes(files: Files, expected: list[Any]) -> None:
    wanted = [([PICTURES[0]], 0), ([PICTURES[1]], 1), (PICTURES, 2), (None, 3)] * 2
    with generator(files, draft=files[2], max_sequences=3, num_draft_tokens=3) as gen:
        handles = [
            gen.submit(QUESTION, images=images, max_tokens=TOKENS, temperature=0, ignore_eos=True)
            for images, _ in wanted
        ]
        for handle, (_, index) in zip(handles, wanted, strict=True):
            assert handle.result().tokens == [token for token, _ in expected[index]]


def test_small_batches(files: Files, expected: list[Any]) -> None:
    """Passes of 64 tokens: pictures with attention in one direction are read in several."""
    try:
        with generator(files, num_draft_tokens=0, n_batch=64) as gen:
            check_answers(gen, list(expected))
    except ValueError as error:
        assert "must share a pass" in str(error)


def test_the_second_question_reads_nothing_again(files: Files) -> None:
    first, second = PICTURES
    with generator(files, draft=files[2], num_draft_tokens=3) as gen, generator(files, num_draft_tokens=0) as plain:
        prompt = gen.generate(QUESTION, images=first, max_tokens=4, temperature=0)
        length = prompt.stats.prompt_tokens
        other = QUESTION[:-2] + " x"
        again = gen.generate(other, images=first, max_tokens=TOKENS, temperature=0, ignore_eos=True)
        assert again.tokens == [token for token, _ in answer(plain, first, other)]
        has_states = again.stats.prompt_cached_tokens == 0  # a recurrent state does not go back
        assert has_states or again.stats.prompt_cached_tokens >= length - 8
        changed = gen.generate(QUESTION, images=second, max_tokens=TOKENS, temperature=0, ignore_eos=True)
        assert changed.stats.prompt_cached_tokens <= 4  # BOS and the marks before
        assert changed.tokens == [token for token, _ in answer(plain, second)]


def test_prefixes_outlive_the_process(files: Files, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "prefix"
    with generator(files, draft=files[2], num_draft_tokens=3) as gen:
        gen.generate(QUESTION, images=PICTURES, max_tokens=4, temperature=0)
        saved = gen.save_prefix(path)
    with generator(files, draft=files[2], num_draft_tokens=3) as gen, generator(files, num_draft_tokens=0) as plain:
        if gen.load_prefix(path) != saved:  # what had left the window is not in the file
            assert plain.metadata["general.architecture"].startswith("gemma")
            return
        found = gen.generate(QUESTION, images=PICTURES, max_tokens=TOKENS, temperature=0, ignore_eos=True)
        assert found.tokens == [token for token, _ in answer(plain, PICTURES)]
        assert found.stats.prompt_cached_tokens > 0 or saved > found.stats.prompt_tokens


def test_conversations(llava: Files) -> None:
    with generator(llava, draft=llava[2], chat_template="chatml") as gen:
        parts = [
            {"type": "text", "text": "What is"},
            {"type": "image", "image": PICTURES[0]},
            {"type": "text", "text": "?"},
        ]
        one = gen.chat([{"role": "user", "content": parts}], max_tokens=8, temperature=0)
        other = gen.chat(
            [{"role": "user", "content": [parts[0], {"type": "image", "image": PICTURES[1]}, parts[2]]}],
            max_tokens=8,
            temperature=0,
        )
        assert one.stats.prompt_tokens == other.stats.prompt_tokens
        before = gen.chat([{"role": "user", "content": "What?"}], images=PICTURES, max_tokens=8, temperature=0)
        assert before.stats.prompt_tokens > 2 * 64
        with pytest.raises(ValueError, match="images needs a message of the user"):
            gen.chat([{"role": "system", "content": "x"}], images=PICTURES)


def test_forms_of_a_picture(llava: Files, tmp_path: pathlib.Path) -> None:
    from specdec_native._pictures import pictures_of

    [(_, png)] = pictures_of("images", PICTURES[0])
    path = tmp_path / "a.png"
    path.write_bytes(png)
    with generator(llava) as gen:
        expected = answer(gen, PICTURES[0])
        for same in (png, bytearray(png), path, str(path), [path], np.ascontiguousarray(PICTURES[0])):
            assert answer(gen, same) == expected
        grey = PICTURES[0][:, :, 0]
        assert answer(gen, grey) == answer(gen, grey[:, :, np.newaxis])


def test_each_picture_takes_the_same_number_of_tokens(llava: Files) -> None:
    with generator(llava) as gen:
        lengths = [
            gen.generate("x", images=PICTURES[:1] * count, max_tokens=1).stats.prompt_tokens for count in range(4)
        ]
        assert lengths[3] - lengths[2] == lengths[2] - lengths[1] == lengths[1] - lengths[0] > 0


def test_errors(llava: Files, tmp_path: pathlib.Path) -> None:
    with generator(llava) as gen:
        cut = tmp_path / "cut.png"
        cut.write_bytes(b"\x89PNG\r\n\x1a\n")
        wrong: list[tuple[Any, type[Exception], str]] = [
            (cut, ValueError, "cut.png: is not a picture, or is damaged"),
            (b"RIFF0000WEBPVP8 ", ValueError, "a WebP file; PNG, JPEG"),
            (b"", ValueError, "is empty"),
            (tmp_path / "none.png", FileNotFoundError, "none.png"),
            ("https://example.org/a.png", ValueError, "is a URL"),
            ("data:image/png,abc", ValueError, "data URL in base64"),
            (np.zeros((4, 4), np.float32), ValueError, "uint8"),
            (3, TypeError, "int"),
        ]
        for image, kind, message in wrong:
            with pytest.raises(kind, match=message):
                gen.generate("x", images=image, max_tokens=2)
        with pytest.raises(ValueError, match="token ids"):
            gen.generate([1, 2], images=PICTURES[0])
        with pytest.raises(sd.ContextFull):
            gen.generate("x", images=PICTURES * 8, max_tokens=2)
        with pytest.raises(ValueError, match="a prompt token"):
            gen.generate([1, -1, 2], max_tokens=2)
        assert len(answer(gen, PICTURES[0])) == TOKENS
    with sd.Generator(llava[0], mmproj="none", n_ctx=CONTEXT) as gen, pytest.raises(ValueError, match="switched off"):
        gen.generate("x", images=PICTURES[0])
    lonely = tmp_path / "lonely.gguf"
    lonely.write_bytes(llava[0].read_bytes())
    with sd.Generator(lonely, n_ctx=CONTEXT) as gen, pytest.raises(ValueError, match="there is no projector"):
        gen.generate("x", images=PICTURES[0])
    with pytest.raises(sd.ModelError, match="is not a projector"):
        sd.Generator(llava[0], mmproj=llava[0])
    with pytest.raises(sd.ModelError, match="the projector of a model"):
        sd.Generator(llava[1])
    with sd.Generator(llava[0], n_ctx=CONTEXT) as gen:  # the one beside it is found
        assert len(answer(gen, PICTURES[0])) == TOKENS
