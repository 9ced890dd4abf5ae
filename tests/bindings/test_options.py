"""The engine's tables of options and statistics against Python's typed signatures, which repeat names, types and
defaults."""

import copy
import dataclasses
import inspect
import os
import pathlib
import pickle
import pydoc
import re
import shutil
from typing import Any, get_args

import pytest

import specdec_native as sd
from specdec_native import _core
from specdec_native._options import CHAT_OPTIONS, ChatOptions, Drafting, GeneratorOptions, StreamOptions, Verification
from specdec_native.ray import OPTION_COLUMNS

pytestmark = pytest.mark.quick

CHOICES = {"verification": ("Verification", get_args(Verification)), "drafting": ("Drafting", get_args(Drafting))}
TYPES = {  # besides None, which is the default of every option
    "flag": "bool",
    "whole": "int",
    "number": "float",
    "seed": "int",
    "draft_tokens": "int | Literal['auto']",
    "layers": "int | Literal['all', 'auto']",
    "choice": "str",
    "text": "str",
    "schema": "JsonSchema",
    "object": "str | Mapping[str, Any]",
    "path": "str | os.PathLike[str]",
    "draft": "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]",
    "texts": "str | Sequence[str]",
    "addresses": "str | Sequence[str]",
    "biases": "Mapping[int, float]",
    "tokens": "Sequence[int]",
}


def check(parameters: dict[str, inspect.Parameter], table: dict[str, dict[str, Any]]) -> None:
    """A default that is empty is shown as None, which means it."""
    assert parameters.keys() == table.keys()
    for name, row in table.items():
        annotation = TYPES[row["type"]]
        if name in CHOICES:
            annotation, choices = CHOICES[name]
            assert choices == tuple(row["choices"])
        assert parameters[name].annotation.replace('"', "'") == f"{annotation} | None", name
        default = parameters[name].default
        assert default == (None if row["default"] in ([], {}, "") else row["default"]), name
        assert type(default) in (type(None), type(row["default"])), name


def parameters_of(function: Any) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(function).parameters.items() if name not in {"self", "prompt"}}


def test_the_arguments_of_stream_are_the_table() -> None:
    parameters = parameters_of(sd.Generator.stream)
    del parameters["images"]  # a part of the prompt
    check(parameters, _core.request_options())
    assert StreamOptions.__annotations__.keys() - {"images"} == _core.request_options().keys()
    assert GeneratorOptions.__annotations__.keys() | {"target", "draft"} == _core.generator_options().keys()
    assert OPTION_COLUMNS | {"logit_bias"} == _core.request_options().keys()


def test_the_arguments_of_generator_are_the_table() -> None:
    parameters = parameters_of(sd.Generator)
    del parameters["progress"]  # how it is loaded, not what
    check(parameters, _core.generator_options())


def test_a_default_given_is_a_default_left_out() -> None:
    _core.check_request_options()
    _core.check_request_options(**{name: row["default"] for name, row in _core.request_options().items()})


def test_none_is_the_default_of_every_option(target_path: pathlib.Path) -> None:
    _core.check_request_options(**dict.fromkeys(_core.request_options()))
    chat = dict.fromkeys(ChatOptions.__annotations__)
    nothing: Any = dict.fromkeys(GeneratorOptions.__annotations__)
    with sd.Generator(target_path, None, progress=None, **nothing) as gen, sd.Generator(target_path) as other:
        given: Any = {**chat, "max_tokens": 8, "seed": 1}
        expected = other.generate("import os\n", max_tokens=8, seed=1)
        of_text: Any = {name: value for name, value in given.items() if name not in CHAT_OPTIONS}
        assert gen.generate("import os\n", **of_text).text == expected.text
        request: Any = {"prompt": "import os\n", **dict.fromkeys(chat)}
        (one,) = gen.generate_many([request], **given)
        assert one.text == expected.text
        common: Any = {"max_tokens": 3}
        (one,) = gen.generate_many([{"prompt": "import os\n", "max_tokens": None}], **common)
        assert len(one.tokens) == 3  # the default of a batch


@pytest.mark.parametrize("name", ["stream", "generate", "submit", "astream", "agenerate"])
def test_help_lists_the_options(name: str) -> None:
    text = str(inspect.signature(getattr(sd.Generator, name)))
    for option in _core.request_options():
        assert f" {option}: " in text, option
    assert "max_tokens: 'int | None' = 224" in text and "**" not in text
    shown = pydoc.plain(pydoc.render_doc(getattr(sd.Generator, name)))
    assert "temperature: 'float | None' = 0.8" in shown


@pytest.mark.parametrize("name", ["stream_chat", "chat", "submit_chat", "achat", "astream_chat", "generate_many"])
def test_help_of_chats_lists_the_options(name: str) -> None:
    parameters = inspect.signature(getattr(sd.Generator, name)).parameters
    assert parameters.keys() >= {*_core.request_options(), *CHAT_OPTIONS}
    assert parameters["max_tokens"].default is None  # until the model ends its answer


def test_help_of_the_constructor() -> None:
    assert "kv_type: 'str | None' = 'f16'" in pydoc.plain(pydoc.render_doc(sd.Generator))


def test_every_option_has_an_entry_in_the_docstring() -> None:
    """ "name: ..." or "name, other: ..." at the beginning of a line; an option that another entry mentions does not
    count."""
    for function, table in ((sd.Generator.stream, _core.request_options()), (sd.Generator, _core.generator_options())):
        entries = re.findall(r"^(\w+(?:, \w+)*): ", inspect.getdoc(function) or "", re.MULTILINE)
        named = [name for entry in entries for name in entry.split(", ")]
        assert sorted(set(named) - {"prompt", "images", "progress"}) == sorted(table) and len(set(named)) == len(named)


def test_the_reference_lists_every_public_name() -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs" / "api.md").read_text()
    listed = set(re.findall(r"^        - (\w+)$", page, re.MULTILINE)) | set(re.findall(r"::: [\w.]+\.(\w+)", page))
    assert listed == set(sd.__all__) - {"__version__"}


def test_the_fields_of_stats_are_the_table(target_path: pathlib.Path) -> None:
    given = sd.Generator(target_path)._core.submit("x", [], False, False, max_tokens=1).stats()
    assert {name: type(value).__name__ for name, value in given.items()} == {
        field.name: field.type for field in dataclasses.fields(sd.Stats)
    }


def test_options_of_another_name() -> None:
    with pytest.raises(TypeError, match="unknown option 'topping'; options are allowed_token_ids, bad_words, "):
        _core.check_request_options(topping=1)


def test_a_misspelt_argument_is_named_with_the_right_one(target_path: pathlib.Path) -> None:
    gen = sd.Generator(target_path)
    calls: list[tuple[Any, str, str]] = [
        (gen.generate, "temprature", "temperature"),
        (gen.stream, "max_token", "max_tokens"),
        (gen.submit, "jsonschema", "json_schema"),
        (lambda _, **given: gen.generate_many(["x"], **given), "min_token", "min_tokens"),
        (lambda _, **given: sd.Generator(target_path, **given), "nctx", "n_ctx"),
        (lambda _, **given: sd.Generator(target_path, **given), "kv_typ", "kv_type"),
    ]
    for call, wrong, right in calls:
        with pytest.raises(TypeError, match=rf"unknown option '{wrong}'.*; did you mean {right}\?; options are"):
            call("x", **{wrong: 1})


def test_a_generator_is_not_copied(target_path: pathlib.Path) -> None:
    gen = sd.Generator(target_path)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Generator cannot be copied or pickled: it owns models and threads"):
            copied(gen)  # type: ignore[operator]


def test_a_file_called_ngram(
    tmp_path: pathlib.Path, draft_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = shutil.copy(draft_path, tmp_path / "target.gguf")
    looked_up = sd.Generator(target, "ngram")
    assert looked_up.generate("x = x = x =", max_tokens=8, num_draft_tokens=2).stats.draft_calls == 0
    for missing in ("./ngram", pathlib.Path("ngram")):
        with pytest.raises(sd.ModelError, match="ngram"):
            sd.Generator(target, missing)
    shutil.copy(draft_path, "ngram")
    for file in ("./ngram", pathlib.Path("ngram")):
        assert (
            sd.Generator(target, file).generate("x = x = x =", max_tokens=8, num_draft_tokens=2).stats.draft_calls > 0
        )
