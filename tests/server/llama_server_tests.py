"""Runs llama.cpp's own server tests, from the pinned source, against `specdec serve`: make server-check.

Their models are replaced by the bundled pair, so any text passes in place of the words that they expect of their
models, and any number in place of COUNTS. SKIPPED and FILES_NOT_RUN list what is left out and why; tests that they mark
as slow need models of several gigabytes. This file is also the pytest plugin that does the replacing.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LLAMA_CPP = ROOT / "third_party" / "llama.cpp"
FILES = "basic chat_completion compat_anthropic completion compat_oai_responses ctx_shift ignore_eos metrics"
FILES += " security speculative template tokenize tool_call"
FILES_NOT_RUN = {
    "compat_gcp": "another API",
    "embedding": "their model is an encoder (here: tests/server/test_embeddings.py)",
    "infill": "their model has marks for it, the bundled one has none (here: tests/server/test_infill.py)",
    "rerank": "no ranks",
    "kv_keep_only_active": "idle slots keep their caches",
    "slot_save": "numbers of another tokenizer's tokens, and bytes of their format, are in the tests (here: "
    "tests/server/test_slots.py)",
    "lora": "no adapters",
    "mcp_servers, tools_builtin, proxy": "the server runs no tools",
    "router": "their models are to be downloaded, and are named by their weights' type (here: "
    "tests/server/test_models.py)",
    "sleep": "a model that is idle stays loaded",
    "stream": "streams of a router, to be resumed by id after the client has gone; here that ends the request",
    "vision_api": "text only",
}
# Tests that are not run, by the reason: names with their parameters, or without them for all parameters.
SKIPPED = {
    "the model is one of several files, to be downloaded": "test_load_split_model",
    "a model has one name and no tags": "test_server_model_aliases_and_tags",
    "one address": "test_server_multiple_addresses",
    "/slots cannot be turned off": "test_server_slots",
    "/metrics cannot be turned off": "test_metrics_disabled",
    "the page is one file, /; there is no /sw.js": "test_access_static_assets_without_api_key",
    "CORS is off unless told, and then without credentials": "test_cors_options",
    "the server runs no tools, which turn CORS on": "test_cors_origins_defaults_to_localhost_with_tools_enabled",
    "no proxy": "test_cors_proxy_only_forwards_explicit_proxy_headers",
    "an image is to be read": "test_local_media_file[../../../tools-file://mtmd/test-1.jpeg-True] "
    "test_local_media_file[../../../tools-file:////mtmd//test-1.jpeg-True]",
    "/metrics count the prompts of requests that generate": "test_metrics_embedding_prompt_is_counted",
    "images are a 400, not a 500": "test_anthropic_tool_result_with_image test_anthropic_vision_format_accepted "
    "test_anthropic_vision_base64_with_multimodal_model",
    "a conversation has at least one message": "test_anthropic_empty_messages",
    "the context is not shifted: the text ends": "test_ctx_shift_enabled test_with_ctx_shift",
    "numbers of another tokenizer's tokens are in the test itself": "test_chat_completion_cached_tokens "
    "test_return_progress[64-4-False] "
    "test_completion_prompt_cache",
    "its prompt of 248 tokens has more than 256 with the bundled tokenizer": "test_slot_ctx_not_exceeded",
    "expects a BOS token with id 1": "test_tokenize_with_bos",
    "expects the BOS token <s>": "test_completion_response_fields"
    "[I+believe+the+meaning+of+life+is-32-response_fields1]",
    "its prompt has less than the context with the bundled tokenizer": "test_ctx_shift_disabled_long_prompt",
    "generation_settings have no adaptive_target: there is no such sampler": "test_completion_stream",
    "a chat template without {{ or {% is rejected as a mistake": "test_chat_completion[None-Book-What+is+the+best+"
    "book-8-^+blue-23-8-length-True-This+is+not+a+chat+template,+it+is]",
    "templates know what transformers tells them, which is no date": "test_date_inside_prompt",
    "replies have no __verbose": "test_chat_template test_chat_template_assistant_prefill test_verbose_debug "
    "test_chat_template_continue_final_message_vllm_compat",
    "two messages of the assistant at the end are no error if the template takes them": "test_invalid_chat_"
    "completion_req[messages7]",
    "log-probabilities are the model's own, before the transforms": "test_n_probs_post_sampling "
    "test_n_probs_post_backend_sampling",
    "a response that is cut ends with response.incomplete": "test_responses_stream_with_llama_telemetry",
    "no n_tokens_max and n_busy_slots_per_decode": "test_metrics_prometheus_format",
    "rates include the first token": "test_metrics_generation_rate_excludes_first_token",
    "a list of schemas as items is rejected: JSON Schema calls it prefixItems": "test_completion_with_response_format["
    "response_format1-10-[+-3000+]]",
}
# Numbers of tokens of their tokenizer: the parameters of tests for which any number passes.
COUNTS = {
    "test_chat_completion": "n_prompt",
    "test_chat_completion_stream": "n_prompt",
    "test_completion": "n_prompt",
    "test_ctx_shift_disabled_short_prompt[-1-248-True]": "n_token_output",
}
# Flags of llama-server that have a value and mean nothing here.
DROPPED_WITH_VALUE = {"--hf-repo", "--hf-file", "--model-url", "--model", "--model-draft", "-fa", "-ctk", "-ctv"}
DROPPED_WITH_VALUE |= {"--n-gpu-layers", "--ubatch-size", "--tags", "--media-path", "--spec-type", "--spec-draft-n-min"}
DROPPED_WITH_VALUE |= {"--n-predict"}  # a default there; here also the most that a request can get
DROPPED = {"--offline", "--no-slots", "--cont-batching", "--no-jinja", "--kv-unified", "--verbose", "--swa-full"}


class AnyCount:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other > 0

    __hash__ = None  # type: ignore[assignment]


def templates() -> pathlib.Path:
    """models/templates of the pinned source, which is not unpacked for the build."""
    sys.path.insert(0, str(LLAMA_CPP))
    import fetch

    folder = ROOT / ".cache" / f"templates-{fetch.SHA256[:12]}"
    fetch.templates(folder)
    return folder


def arguments_of(llama: list[str], specdec: str) -> list[str]:
    """The command line of `specdec serve` for one of llama-server."""
    options = iter(llama[1:])
    result, context, slots = [specdec, "serve", "-t", "1"], 0, 1
    for option in options:
        if option == "--spec-synth-rates":
            pytest.skip("what it did before passed; acceptance rates are not invented")
        elif option == "--reasoning":
            result += ["--chat-template-kwargs", json.dumps({"enable_thinking": next(options) != "off"})]
        elif option in DROPPED_WITH_VALUE:
            next(options)
        elif option == "--ctx-size":
            context = int(next(options))
        elif option == "--parallel":
            slots = int(next(options))
        elif option == "--batch-size":
            result += [option, str(max(64, int(next(options))))]
        elif option == "--chat-template-file":
            result += [option, str(templates() / pathlib.Path(next(options)).name)]
        elif option not in DROPPED:
            result.append(option)
    result += ["-np", str(slots)]
    if context:  # of all slots together there
        result += ["-c", str(context if "--kv-unified" in llama else context // slots)]
    is_compared = "test_speculative" in os.environ.get("PYTEST_CURRENT_TEST", "")  # with a draft and without
    return [*result, "-k", "0"] if is_compared and "--model-draft" not in llama else result


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
    return item.name == name if "[" in name else item.name.split("[")[0] == name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for reason, names in SKIPPED.items():
        for name in names.split():
            found = [item for item in items if is_named(item, name.replace("+", " "))]
            if not found and len(items) > 100:  # not a choice of them
                raise pytest.UsageError(f"there is no test {name}, which is to be skipped: {reason}")
            for item in found:
                item.add_marker(pytest.mark.skip(reason=reason))
    for name, parameter in COUNTS.items():
        for item in items:
            if is_named(item, name) and isinstance(item, pytest.Function):
                item.callspec.params[parameter] = AnyCount()


def main() -> int:
    fetch = [sys.executable, str(LLAMA_CPP / "fetch.py"), str(ROOT / ".cache")]
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
