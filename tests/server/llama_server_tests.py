"""Runs llama.cpp's own server tests, from the pinned source, against `specdec serve`: make server-check.

Their models are replaced by the bundled pair, so what depends on the text or the tokenizer of theirs cannot hold;
SKIPPED lists what is left out and why. This file is also the pytest plugin that does the replacing.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import types
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FILES = "basic chat_completion completion compat_oai_responses ctx_shift ignore_eos metrics security speculative tokenize"
FILES_NOT_RUN = {
    "compat_anthropic, compat_gcp": "other APIs",
    "embedding, rerank": "no embeddings",
    "infill": "no fill-in-the-middle",
    "kv_keep_only_active, slot_save": "slots are the engine's; they are not saved, chosen or cleared by clients",
    "lora": "no adapters",
    "mcp_servers, tools_builtin, proxy": "the server runs no tools",
    "router, sleep, stream": "one model for the life of the process",
    "vision_api": "text only",
    "tool_call": "needs models of several gigabytes",
}
# Patterns of test names, each with the reason; the first that matches counts.
SKIPPED = {
    r"test_load_split_model|test_server_multiple_addresses|aliases_and_tags": "one model of one name, one address",
    r"test_no_ui|static_assets": "no page yet",
    r"test_server_slots|test_metrics_disabled": "slots and metrics are always there",
    r"test_cors|test_local_media_file": "CORS is off unless told, other headers; no proxy, no media",
    r"test_ctx_shift_enabled|test_with_ctx_shift": "the context is not shifted: the text ends",
    r"test_synth|test_with_and_without_draft": "invented acceptance rates are llama-server's own test hook",
    r"test_chat_completion\[|cached_tokens|test_completion\[|test_completion_stream\[": "counts of their tokens",
    r"test_completion_prompt_cache|disabled_(short|long)_prompt|test_slot_ctx": "counts of their tokens",
    r"test_completion_response_fields|with_bos": "their BOS token",
    r"test_chat_template|test_verbose_debug|continue_final": "no __verbose, and no answers that continue a message",
    r"return_progress|prompt_progress|llama_telemetry": "no progress of prompts",
    r"test_n_probs_post": "log-probabilities are the model's own, before sampling's transforms",
    r"test_completion_unified": "each sequence has a context of its own",
    r"test_context_size_exceeded": "the error has no n_prompt_tokens",
    r"token_count|embedding_prompt": "no such endpoint",
    r"generation_rate_excludes|prometheus_format": "rates include the first token; some gauges are missing",
    r"test_invalid_chat_completion_req\[messages7\]": "the bundled models have no template that rejects it",
    r"response_format1": "a list of schemas as items is not supported",
}
# Flags of llama-server that have a value and mean nothing here.
DROPPED_WITH_VALUE = {"--hf-repo", "--hf-file", "--model-url", "--model", "--model-draft", "-fa", "-ctk", "-ctv"}
DROPPED_WITH_VALUE |= {"--reasoning-format", "--reasoning", "--n-gpu-layers", "--ubatch-size", "--tags"}
DROPPED_WITH_VALUE |= {"--spec-type", "--spec-draft-n-min", "--spec-synth-rates", "--spec-synth-len"}
DROPPED = {"--offline", "--no-slots", "--cont-batching", "--no-jinja", "--kv-unified", "--verbose", "--context-shift"}
DROPPED |= {"--swa-full", "--backend_sampling"}


def arguments_of(llama: list[str], specdec: str) -> list[str]:
    """The command line of `specdec serve` for one of llama-server."""
    options = iter(llama[1:])
    result, context, slots, has_draft = [specdec, "serve", "-t", "1"], 0, 1, False
    for option in options:
        if option == "--model-draft":
            has_draft = True
        if option in DROPPED_WITH_VALUE:
            next(options)
        elif option == "--ctx-size":
            context = int(next(options))
        elif option == "--parallel":
            slots = int(next(options))
        elif option == "--batch-size":
            result += [option, str(max(64, int(next(options))))]
        elif option not in DROPPED:
            result.append(option)
    result += ["-np", str(slots)]
    if context:  # of all slots together there
        result += ["-c", str(context // slots)]
    is_compared = "test_speculative" in os.environ.get("PYTEST_CURRENT_TEST", "")  # with a draft and without
    return [*result, "-k", "0"] if is_compared and not has_draft else result


def replace_models(utils: Any) -> None:
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[Any]:
        return popen(arguments_of(command, os.environ["LLAMA_SERVER_BIN_PATH"]), **options)

    utils.subprocess = types.SimpleNamespace(Popen=start, TimeoutExpired=subprocess.TimeoutExpired)
    utils.ServerPreset.load_all = staticmethod(lambda: None)  # downloads
    utils.download_file = lambda url, path=None: url
    utils.match_regex = lambda regex, text: isinstance(text, str)  # the text of another model


def pytest_load_initial_conftests() -> None:
    sys.path.insert(0, os.getcwd())
    sys.modules["wget"] = types.ModuleType("wget")  # downloads
    import utils

    replace_models(utils)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for pattern, reason in SKIPPED.items():
            if re.search(pattern, item.name):
                item.add_marker(pytest.mark.skip(reason=reason))
                break


def main() -> int:
    fetch = [sys.executable, str(ROOT / "third_party" / "llama.cpp" / "fetch.py"), str(ROOT / ".cache")]
    source = subprocess.run(fetch, capture_output=True, text=True, check=True).stdout.strip()
    folder = pathlib.Path(source) / "tools" / "server" / "tests"
    binary = os.environ.get("SPECDEC_BINARY", str(ROOT / "build" / "default" / "specdec"))
    environment = {**os.environ, "LLAMA_SERVER_BIN_PATH": binary, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    files = [f"unit/test_{name}.py" for name in FILES.split()]
    options = [
        "-p",
        pathlib.Path(__file__).stem,
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        "-q",
        "-rfs",
        "--tb=line",
        "-m",
        "not slow",
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *sys.argv[1:], *files], cwd=folder, env=environment
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
