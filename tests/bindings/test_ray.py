"""Rows through GenerateText: in this process on arrays, and over a real Ray cluster of two actors, one killed in the
middle."""

from __future__ import annotations

import os
import pathlib
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import specdec_native as sd
from specdec_native.ray import OPTION_COLUMNS, OUTPUT_COLUMNS, GenerateText, row_seed

PROMPTS = ["def bfs(graph, start):", "import os\n", "class Stack:", "for i in range("]
SAMPLING: Any = {"max_tokens": 12, "seed": 5}


def batch_of(**columns: list[Any]) -> dict[str, np.ndarray]:
    """Columns as Ray Data passes them: numbers as arrays, everything else as arrays of objects."""
    batch = {}
    for name, values in columns.items():
        batch[name] = np.array(values) if isinstance(values[0], int | float) else np.empty(len(values), object)
        batch[name][:] = values
    return batch


@pytest.fixture(scope="module")
def complete() -> GenerateText:
    return GenerateText(sampling=SAMPLING, n_threads=1)


def test_columns_of_a_batch(complete: GenerateText) -> None:
    batch = batch_of(id=[0, 1, 2, 3], prompt=PROMPTS)
    out = complete(batch)
    assert tuple(out) == ("id", "prompt", *OUTPUT_COLUMNS)
    assert all(len(column) == 4 for column in out.values())
    gen = sd.Generator(n_threads=1)
    for i, prompt in enumerate(PROMPTS):
        alone = gen.generate(prompt, max_tokens=12, seed=row_seed(5, prompt))
        assert (out["text"][i], out["tokens"][i], out["finish_reason"][i]) == (
            alone.text,
            alone.tokens,
            alone.finish_reason,
        )
        assert out["num_tokens"][i] == 12 and out["seconds"][i] > 0 and out["error"][i] is None


def test_a_row_does_not_depend_on_its_batch(complete: GenerateText) -> None:
    whole = complete(batch_of(prompt=PROMPTS))["text"]
    backwards = complete(batch_of(prompt=PROMPTS[::-1]))["text"][::-1]
    assert list(whole) == list(backwards) == [complete(batch_of(prompt=[prompt]))["text"][0] for prompt in PROMPTS]


def test_equal_prompts_differ_by_their_key_or_seed(complete: GenerateText) -> None:
    keyed = GenerateText(sampling=SAMPLING, key_column="id", n_threads=1)
    same = batch_of(prompt=[PROMPTS[0]] * 2, id=[1, 2])
    assert len(set(complete(same)["text"])) == 1
    assert len(set(keyed(same)["text"])) == 2
    assert len(set(complete(same | batch_of(seed=[1, 2]))["text"])) == 2
    other = GenerateText(sampling={**SAMPLING, "seed": 6}, n_threads=1)
    assert complete(same)["text"][0] != other(same)["text"][0]


def test_columns_override_options_where_they_are_not_null(complete: GenerateText) -> None:
    batch = batch_of(prompt=[PROMPTS[0]] * 3, max_tokens=[3.0, float("nan"), 5.0], stop=[None, ["\n"], None])
    out = complete(batch | batch_of(temperature=[0.0, 0.0, 0.0]))
    assert list(out["num_tokens"]) == [3, len(out["tokens"][1]), 5]
    assert out["finish_reason"][1] == "stop" and "\n" not in out["text"][1]
    assert out["text"][2].startswith(out["text"][0])
    assert "logit_bias" not in OPTION_COLUMNS


def test_a_stop_string_inside_a_block_of_drafts_cuts_the_counts(complete: GenerateText) -> None:
    """Long drafts, most of which are accepted: the text often stops before the end of a block."""
    drafting = GenerateText(
        sampling={"max_tokens": 60, "temperature": 0, "stop": ["e", "("], "num_draft_tokens": 15}, n_threads=1
    )
    out = drafting(batch_of(prompt=PROMPTS))
    assert list(out["num_tokens"]) == [len(tokens) for tokens in out["tokens"]]
    assert all(out["num_accepted"] <= out["num_tokens"])
    assert "stop" in set(out["finish_reason"])


def test_a_bad_row_fails_alone(complete: GenerateText) -> None:
    prompts = [PROMPTS[0], "", None, "x " * 5000, np.array([1, 2, 3]), PROMPTS[1], [10**6]]
    batch = batch_of(prompt=prompts, temperature=[0.5, 0.5, 0.5, 0.5, 0.5, -1.0, 0.5])
    out = complete(batch)
    assert [error is None for error in out["error"]] == [True, False, False, False, True, False, False]
    assert "empty" in out["error"][1] and "context" in out["error"][3] and "temperature" in out["error"][5]
    for i in (1, 2, 3, 5, 6):
        assert out["text"][i] is None and out["tokens"][i] == [] and out["finish_reason"][i] is None
        assert out["num_tokens"][i] == 0
    alone = complete(batch_of(prompt=prompts[:1], temperature=[0.5]))
    assert out["text"][0] == alone["text"][0]


def test_wrong_columns_and_options_are_errors() -> None:
    with pytest.raises(ValueError, match="sampling has temprature"):
        GenerateText(sampling={"temprature": 1})  # type: ignore[typeddict-unknown-key]
    complete = GenerateText(prompt_column="text", sampling=SAMPLING, n_threads=1)
    with pytest.raises(ValueError, match='no column "text", only prompt'):
        complete(batch_of(prompt=PROMPTS))
    with pytest.raises(ValueError, match='a column "text" already'):
        complete(batch_of(text=PROMPTS))
    prefixed = GenerateText(prompt_column="text", sampling=SAMPLING, prefix="new_", n_threads=1)
    assert tuple(prefixed(batch_of(text=PROMPTS))) == ("text", *("new_" + name for name in OUTPUT_COLUMNS))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'specdec_native[ray]'")
    pytest.importorskip("ray.data")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with tempfile.TemporaryDirectory(
        prefix="ray", ignore_cleanup_errors=True
    ) as folder:  # short: it holds Unix sockets
        ray.init(
            num_cpus=4,  # what Ray schedules with, regardless of the machine: two for the actors, the rest for reading
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=100 << 20,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield ray
        ray.shutdown()


def test_nothing_is_lost_when_an_actor_is_killed(cluster: Any, tmp_path: pathlib.Path) -> None:
    once = tmp_path / "killed"

    class Dying(GenerateText):  # in a function, so that it travels by value
        def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            out = super().__call__(batch)
            if 21 in batch["id"] and not once.exists():
                once.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return out | {"pid": np.full(len(batch["id"]), os.getpid())}

    rows = [{"id": i, "prompt": f"{PROMPTS[i % 4]}\n# {i}\n"} for i in range(48)]
    rows[30]["prompt"] = ""
    dataset = cluster.data.from_items(rows, override_num_blocks=12).map_batches(
        Dying,
        fn_constructor_kwargs={"sampling": SAMPLING, "n_threads": 1},
        compute=cluster.data.ActorPoolStrategy(size=2),
        batch_size=4,
    )
    out = sorted(dataset.take_all(), key=lambda row: row["id"])

    assert once.exists()
    pids = {row["pid"] for row in out}
    assert len(pids) >= 2 and int(once.read_text()) not in {row["pid"] for row in out if row["id"] == 21}
    assert [row["id"] for row in out] == list(range(48))
    alone = GenerateText(sampling=SAMPLING, n_threads=1)(
        batch_of(**{name: [row[name] for row in rows] for name in rows[0]})
    )
    for name in ("prompt", "text", "finish_reason", "error", "num_tokens"):
        assert [row[name] for row in out] == list(alone[name]), name
    assert [list(row["tokens"]) for row in out] == list(alone["tokens"])
    assert [row["id"] for row in out if row["error"] is not None] == [30]
