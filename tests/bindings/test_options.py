"""The engine's tables of options and statistics against Python's typed signatures, which repeat names, types and
defaults."""

import dataclasses
import inspect
import os
import pathlib
import re
import shutil
from typing import Any, get_args

import pytest

import specdec_native as sd
from specdec_native import _core
from specdec_native._options import Drafting, StreamOptions, Verification
from specdec_native.ray import OPTION_COLUMNS

CHOICES = {"verification": ("Verification", get_args(Verification)), "drafting": ("Drafting", get_args(Drafting))}
TYPES = {
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
    "path": "str | os.PathLike[str] | None",
    "draft": "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None",
    "texts": "str | Sequence[str] | None",
    "addresses": "str | Sequence[str]",
    "biases": "Mapping[int, float] | None",
    "tokens": "Sequence[int] | None",
}


EMPTY: dict[str, tuple[object, object]] = {  # where Python's empty default is another object than the row's
    "texts": ((), []),
    "addresses": ((), []),
    "biases": (None, {}),
    "tokens": (None, []),
    "path": (None, ""),
    "draft": (None, ""),
}


def check(parameters: dict[str, inspect.Parameter], table: dict[str, dict[str, Any]]) -> None:
    assert parameters.keys() == table.keys()
    for name, row in table.items():
        annotation = TYPES[row["type"]]
        if row["optional"] and not annotation.endswith(" | None"):
            annotation += " | None"
        if name in CHOICES:
            annotation, choices = CHOICES[name]
            assert choices == tuple(row["choices"])
        assert parameters[name].annotation == annotation, name
        default = parameters[name].default
        if row["type"] in EMPTY and not row["optional"]:
            assert (default, row["default"]) == EMPTY[row["type"]], name
        else:
            assert default == row["default"] and type(default) is type(row["default"]), name


def parameters_of(function: Any) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(function).parameters.items() if name not in {"self", "prompt"}}


def test_the_arguments_of_stream_are_the_table() -> None:
    check(parameters_of(sd.Generator.stream), _core.request_options())
    assert StreamOptions.__annotations__.keys() == _core.request_options().keys()
    assert OPTION_COLUMNS | {"logit_bias"} == _core.request_options().keys()


def test_the_arguments_of_generator_are_the_table() -> None:
    parameters = parameters_of(sd.Generator.__init__)
    del parameters["progress"]  # how it is loaded, not what
    check(parameters, _core.generator_options())


def test_a_default_given_is_a_default_left_out() -> None:
    _core.check_request_options()
    _core.check_request_options(**{name: row["default"] for name, row in _core.request_options().items()})


def test_every_option_has_an_entry_in_the_docstring() -> None:
    """ "name: ..." or "name, other: ..." at the beginning of a line; an option that another entry mentions does not
    count."""
    for function, table in ((sd.Generator.stream, _core.request_options()), (sd.Generator, _core.generator_options())):
        entries = re.findall(r"^(\w+(?:, \w+)*): ", inspect.getdoc(function) or "", re.MULTILINE)
        named = [name for entry in entries for name in entry.split(", ")]
        assert sorted(set(named) - {"prompt", "progress"}) == sorted(table) and len(set(named)) == len(named)


def test_the_fields_of_stats_are_the_table(target_path: pathlib.Path) -> None:
    given = sd.Generator(target_path)._core.submit("x", False, False, max_tokens=1).stats()
    assert {name: type(value).__name__ for name, value in given.items()} == {
        field.name: field.type for field in dataclasses.fields(sd.Stats)
    }


def test_options_of_another_name() -> None:
    with pytest.raises(TypeError, match="unknown option 'top_q'; options are allowed_token_ids, bad_words, "):
        _core.check_request_options(top_q=1)


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
