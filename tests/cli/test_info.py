"""`specdec info`: agrees with the gguf package on any GGUF file."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import gguf
import numpy as np
import pytest
from tests.cli.terminal import Terminal
from tests.models.tiny_models import Vocabulary, deepened, make

from specdec_native import mxfp6


def info(specdec: pathlib.Path, *arguments: object, code: int = 0) -> str:
    result = subprocess.run(
        [specdec, "info", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stderr == "" and result.returncode == code
    return result.stdout


@pytest.mark.parametrize("which", ["target_path", "draft_path"])
def test_json_against_the_gguf_package(specdec: pathlib.Path, request: pytest.FixtureRequest, which: str) -> None:
    path = request.getfixturevalue(which)
    reader = gguf.GGUFReader(path)
    ours = json.loads(info(specdec, path, "--json", "--metadata"))

    assert ours["file_size"] == path.stat().st_size
    assert ours["parts"] == [
        {
            "path": str(path),
            "file_size": path.stat().st_size,
            "data_offset": reader.data_offset,
            "tensors": len(reader.tensors),
        }
    ]
    assert ours["alignment"] == reader.alignment
    assert [tensor["name"] for tensor in ours["tensors"]] == [tensor.name for tensor in reader.tensors]
    for tensor, expected in zip(ours["tensors"], reader.tensors, strict=True):
        assert tensor["type"] == expected.tensor_type.name
        assert tensor["shape"] == expected.shape.tolist()
        assert tensor["bytes"] == expected.n_bytes
        assert tensor["offset"] == expected.data_offset
    assert ours["parameters"] == sum(int(tensor.n_elements) for tensor in reader.tensors)
    for total in ours["types"]:
        of_type = [tensor for tensor in reader.tensors if tensor.tensor_type.name == total["type"]]
        assert total["tensors"] == len(of_type)
        assert total["bytes"] == sum(int(tensor.n_bytes) for tensor in of_type)
        assert total["bits_per_weight"] == {"F16": 16, "F32": 32}[total["type"]]
    assert sum(total["share"] for total in ours["types"]) == pytest.approx(1)

    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert list(ours["metadata"]) == list(fields)
    for name, field in fields.items():
        value, expected = ours["metadata"][name]["value"], field.contents()
        if field.types == [gguf.GGUFValueType.FLOAT32]:
            assert np.float32(value) == expected
        else:
            assert value == expected, name


def test_facts_of_the_bundled_target(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    facts = json.loads(info(specdec, target_path, "--json"))
    expected = {"architecture": "llama", "layers": 8, "width": 256, "feed_forward": 768, "heads": 4, "kv_heads": 2}
    assert {key: facts[key] for key in expected} == expected
    assert facts["context_length"] == 512
    assert facts["vocabulary"] == {"size": 4096, "type": "gpt2", "pre": "gpt-2"}
    assert facts["experts"] is None
    tokens = facts["metadata"]["tokenizer.ggml.tokens"]
    assert (tokens["count"], len(tokens["value"])) == (4096, 16)


def test_text_fits_80_columns(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    with Terminal([specdec, "info", target_path, "--metadata", "--tensors"], columns=80) as terminal:
        text = terminal.read_all()[0]
    assert max(map(len, text.splitlines())) <= 80 and "…" in text
    for part in [
        "stdlib-target",
        "7.34 M",
        "14.1 MiB",
        "4096 tokens",
        "byte-level BPE",
        "512 tokens",
        "blk.7.ffn_down.weight",
    ]:
        assert part in text
    plain = info(specdec, target_path)
    assert "blk.7" not in plain
    assert "tokenizer.ggml" not in plain


@pytest.fixture
def odd_model(tmp_path: pathlib.Path) -> pathlib.Path:
    """An architecture that llama.cpp does not know, per-layer heads, many types, hostile strings."""
    writer = gguf.GGUFWriter(tmp_path / "odd.gguf", "nobody-knows")
    writer.add_name("evil \x1b[2J\nname\x9b")
    writer.add_head_count([4, 2, 4])
    writer.add_context_length(2**20)
    writer.add_vocab_size(1000)
    writer.add_float64("odd.not_a_number", float("nan"))
    writer.add_array("odd.truths", [True, False])
    writer.add_array("odd.nested", [[1, 2], [3, 4]])
    values = np.ones((4, 256), np.float32)
    for quantized in ["Q8_0", "Q4_0", "BF16", "TQ1_0"]:
        kind = gguf.GGMLQuantizationType[quantized]
        writer.add_tensor(f"blk.0.{quantized}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.add_tensor("a_name_that_is_" + "very_" * 8 + "long.weight", np.ones((2, 3, 4, 5), np.float64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "odd.gguf"


def test_any_model(specdec: pathlib.Path, odd_model: pathlib.Path) -> None:
    facts = json.loads(info(specdec, odd_model, "--json"))
    assert facts["architecture"] == "nobody-knows"
    assert facts["heads"] == [4, 2, 4]
    assert facts["layers"] is None
    assert facts["vocabulary"]["size"] == 1000
    assert facts["metadata"]["odd.not_a_number"]["value"] is None
    assert facts["metadata"]["odd.truths"]["value"] == [True, False]
    assert facts["metadata"]["odd.nested"]["value"] == [[1, 2], [3, 4]]
    bits = {total["type"]: total["bits_per_weight"] for total in facts["types"]}
    assert bits == {"Q8_0": 8.5, "Q4_0": 4.5, "BF16": 16, "TQ1_0": 1.6875, "F64": 64}
    kernels = {total["type"]: total["kernel"] for total in facts["types"]}
    own = facts["kernels"]
    assert kernels == {
        "Q8_0": own["blocks"],
        "Q4_0": own["blocks"],
        "BF16": own["floats"],
        "TQ1_0": own["blocks"],
        "F64": "none",
    }
    assert facts["tensors"][-1]["shape"] == [5, 4, 3, 2]


def test_hostile_strings_do_not_reach_the_terminal(specdec: pathlib.Path, odd_model: pathlib.Path) -> None:
    text = info(specdec, odd_model, "--metadata", "--tensors")
    assert "\\x1b[2J\\nname" in text
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)
    assert "[4, 2, 4] per layer" in text


def test_every_type_that_the_gguf_package_knows(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Our table of block sizes against that of the gguf package."""
    writer = gguf.GGUFWriter(tmp_path / "types.gguf", "test")
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":  # 36 bytes in ggml; the package's size is outdated
            continue
        writer.add_tensor(kind.name, np.zeros(3 * 1024 // block * size, np.uint8).reshape(3, -1), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = json.loads(info(specdec, tmp_path / "types.gguf", "--json"))["tensors"]
    for tensor in tensors:
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[tensor["name"]]]
        assert tensor["type"] == tensor["name"]
        assert tensor["bytes"] == 3 * 1024 // block * size


def test_no_line_is_cut_in_a_pipe(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    head = target_path.with_name("stdlib-head-f16.gguf")
    for path in (target_path, head):
        overview = subprocess.run([specdec, "info", path], capture_output=True, text=True, check=True).stdout
        assert max(map(len, overview.splitlines())) <= 80 and "…" not in overview
        assert "…" not in info(specdec, path, "--metadata")


def test_kernels_are_shown_and_can_be_forced(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    def run(isa: str) -> subprocess.CompletedProcess[str]:
        command = [str(specdec), "info", "--json", str(target_path)]
        return subprocess.run(command, capture_output=True, text=True, env={"SPECDEC_ISA": isa} if isa else {})

    families = ["MXFP6", "floats", "blocks", "attention", "sampling", "calibration"]
    assert json.loads(run("scalar").stdout)["kernels"] == dict.fromkeys(families, "scalar")
    assert json.loads(run("").stdout)["kernels"]["MXFP6"] == mxfp6.isas()[0]
    unknown = run("sse9")
    assert unknown.returncode == 1 and "sse9" in unknown.stderr and "scalar" in unknown.stderr


def test_huge_pages_are_told(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    setting = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    there = setting.exists() and "[never]" not in setting.read_text()
    assert json.loads(info(specdec, target_path, "--json"))["huge_pages"] is there
    assert re.search(r"^Huge pages +(not )?available:", info(specdec, target_path), re.MULTILINE)


# ---- A target and its draft


def test_a_pair_that_fits(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = deepened(make("llama", seed=1), 12).write(tmp_path / "target.gguf")
    draft = make("llama", seed=1).write(tmp_path / "draft.gguf")
    text = info(specdec, target, draft, "-c", 64)
    assert text.startswith(f"These fit: specdec chat -m {target} -md {draft}\n\n")
    pair = json.loads(info(specdec, target, draft, "-c", 64, "--json"))
    assert pair["fits"] and pair["pays"] and pair["problem"] == ""
    assert pair["cost"] == pytest.approx(pair["pass_bytes"]["draft"] / pair["pass_bytes"]["target"])
    reader = gguf.GGUFReader(target)
    head = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    has_output = any(tensor.name == "output.weight" for tensor in reader.tensors)
    weights = sum(int(tensor.n_bytes) for tensor in reader.tensors)
    assert pair["pass_bytes"]["target"] == weights - has_output * int(head.n_bytes)
    for gain in pair["gain"]:  # the formula of hub/draft_gain.h, with the best number of drafts
        a, k, cost = gain["acceptance"], gain["num_draft_tokens"], pair["cost"]
        speedups = [sum(a**i for i in range(n + 1)) / (1 + n * (cost + 0.03)) for n in range(1, 17)]
        assert gain["speedup"] == pytest.approx(max(speedups)) == pytest.approx(speedups[k - 1])
    assert pair["weight_bytes"] == target.stat().st_size + draft.stat().st_size
    f16, q8_0 = pair["cache_bytes"]["f16"], pair["cache_bytes"]["q8_0"]
    assert f16["target"] > 4 * f16["draft"] > 0
    assert q8_0["target"] / f16["target"] == pytest.approx(8.5 / 16)
    longer = json.loads(info(specdec, target, draft, "-c", 128, "--json"))["cache_bytes"]["f16"]
    assert longer["target"] == 2 * f16["target"]
    assert re.search(r"^gain .* where 50 % are accepted\n .* 70 % are accepted, as usual in a family\n", text, re.M)
    assert "\nmemory " in text and "and with 64 tokens of context (-c):\n  f16 " in text


def test_a_pair_that_does_not_pay(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = make("llama", seed=1).write(tmp_path / "target.gguf")
    draft = deepened(make("llama", seed=1), 8).write(tmp_path / "draft.gguf")
    text = info(specdec, target, draft)
    assert text.startswith("These fit, but the draft would hardly pay: a pass of it takes about ")
    assert not json.loads(info(specdec, target, draft, "--json"))["pays"]


def test_a_pair_of_two_vocabularies(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = make("llama", seed=1).write(tmp_path / "target.gguf")
    draft = make("llama", seed=1, vocabulary=Vocabulary(merges=["a b"])).write(tmp_path / "draft.gguf")
    text = info(specdec, target, draft, code=1)
    assert re.match(r"These do not fit: it has another vocabulary \(from token \d+ on\)\n", text)
    assert "gain" not in text and "memory " in text
    assert not json.loads(info(specdec, target, draft, "--json", code=1))["fits"]


def test_a_drafting_head(specdec: pathlib.Path, target_path: pathlib.Path) -> None:
    head = target_path.with_name("stdlib-head-f16.gguf")
    assert info(specdec, target_path, head).startswith("These fit: specdec chat -m ")
    draft = target_path.with_name("stdlib-draft-f16.gguf")
    assert info(specdec, draft, head, code=1).startswith("These do not fit: ")


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({"general.type": "adapter", "adapter.type": "lora"}, "a LoRA adapter"),
        ({"general.type": "mmproj", "general.architecture": "clip"}, "the projector of a model that reads pictures"),
        ({"general.type": "imatrix"}, "an importance matrix, for quantizing a model"),
    ],
)
def test_files_that_belong_to_a_model(
    specdec: pathlib.Path, tmp_path: pathlib.Path, target_path: pathlib.Path, keys: dict[str, str], kind: str
) -> None:
    """They are named for what they are, and are not listed as models."""
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, keys.get("general.architecture", "llama"))
    for key, value in keys.items():
        if key != "general.architecture":
            writer.add_string(key, value)
    writer.add_tensor("a.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    def fail(command: str, *options: object) -> str:
        line = [str(specdec), command, *map(str, options)]
        result = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 1
        return result.stderr

    for draft in ([], ["-md", "none"]):
        assert f"{path}: is {kind}" in fail("generate", "-m", path, *draft, "-p", "x")
    assert f"{path}: is {kind}" in fail("generate", "-m", target_path, "-md", path, "-p", "x")
    assert "there is no model (NAME.gguf) in it" in fail("serve", "--models-dir", tmp_path, "--port", 0)
    shown = subprocess.run([specdec, "info", path], capture_output=True, text=True, timeout=60, check=True)
    assert f"is {kind}" in shown.stderr
