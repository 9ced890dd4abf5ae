"""Runs llama.cpp's own server tests, from the pinned source, against `specdec serve`: make server-check.

Their models are replaced by the bundled pair, so what depends on the text or the tokenizer of theirs cannot hold;
SKIPPED lists what is left out and why. This file is also the pytest plugin that does the replacing.
"""

from __future__ import annotations

import os
import pathlib
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
# Tests that are not run, by the reason: names, or the beginning of a name with its parameters.
SKIPPED = {
    "the model is one file, with one name": "test_load_split_model test_server_model_aliases_and_tags",
    "one address": "test_server_multiple_addresses",
    "slots and metrics cannot be turned off": "test_server_slots test_metrics_disabled",
    "the page is one file": "test_access_static_assets_without_api_key",
    "CORS is off unless told, and then has other headers": "test_cors_options",
    "starts without a model, as a router": "test_cors_origins_localhost_reflects test_cors_origins_localhost_rejects "
    "test_cors_origins_defaults_to_localhost_with_tools_enabled",
    "no proxy": "test_cors_proxy_only_forwards_explicit_proxy_headers",
    "text only": "test_local_media_file",
    "no embeddings": "test_metrics_embedding_prompt_is_counted",
    "the context is not shifted: the text ends": "test_ctx_shift_enabled test_with_ctx_shift",
    "slots do not share a context": "test_completion_unified",
    "ends with invented acceptance rates, a function of llama-server's tests": "test_with_and_without_draft "
    "test_synth_is_deterministic test_synth_ignores_target_tokens",
    "expects numbers of tokens of its model's tokenizer": "test_chat_completion[ test_chat_completion_cached_tokens "
    "test_completion[ test_completion_stream[ test_completion_prompt_cache test_slot_ctx_not_exceeded "
    "test_ctx_shift_disabled_short_prompt[-1- test_ctx_shift_disabled_long_prompt",
    "expects its model's BOS token": "test_tokenize_with_bos "
    "test_completion_response_fields[I+believe+the+meaning+of+life+is-32-",
    "replies have no __verbose": "test_chat_template test_chat_template_assistant_prefill "
    "test_chat_template_continue_final_message_vllm_compat test_verbose_debug",
    "no progress of prompts": "test_return_progress test_responses_stream_with_llama_telemetry "
    "test_metrics_timings_on_prompt_progress",
    "log-probabilities are the model's own, before the transforms": "test_n_probs_post_sampling "
    "test_n_probs_post_backend_sampling",
    "a prompt that does not fit is not tokenized to its end, and the error has no count": "test_context_size_exceeded "
    "test_context_size_exceeded_stream",
    "rates include the first token": "test_metrics_generation_rate_excludes_first_token",
    "no n_tokens_max and n_busy_slots_per_decode": "test_metrics_prometheus_format",
    "the bundled models have no template that rejects it": "test_invalid_chat_completion_req[messages7]",
    "a list of schemas as items is rejected": "test_completion_with_response_format[response_format1-",
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


def is_named(item: pytest.Item, name: str) -> bool:
    return item.name.startswith(name) if "[" in name else item.name.split("[")[0] == name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for reason, names in SKIPPED.items():
        for name in names.split():
            found = [item for item in items if is_named(item, name.replace("+", " "))]
            if not found and len(items) > 100:  # not a choice of them
                raise pytest.UsageError(f"there is no test {name}, which is to be skipped: {reason}")
            for item in found:
                item.add_marker(pytest.mark.skip(reason=reason))


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
