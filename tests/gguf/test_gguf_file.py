"""The header check of GGUF files before llama.cpp reads them: every defect gives an error of its own, none a crash."""

from __future__ import annotations

import os
import pathlib
import random
import struct
import subprocess
import sys

import gguf
import numpy as np
import pytest
from gguf_bytes import ARRAY, F32, I32, STRING, U8, U16, U32, Gguf, array, entry, string, tensor, u32, u64

import specdec_native as sd

pytestmark = pytest.mark.quick

HUGE = 2**64 - 1
Q4_0, Q4_2, Q4_K, Q4_0_4_4, MXFP6_E2M3, MXFP6_E3M2 = 2, 4, 12, 31, 96, 97
LAYOUT = entry("mxfp6.layout", U32, u32(1))


def run(specdec: pathlib.Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([specdec, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def nested(depth: int, innermost: bytes) -> bytes:
    """Nested arrays."""
    return array(ARRAY, 1, nested(depth - 1, innermost)) if depth > 1 else innermost


def with_entry(value_type: int, value: bytes) -> Gguf:
    return Gguf(entries=[entry("key", value_type, value)])


def with_tensors(*tensors: bytes, size: int = 1024) -> Gguf:
    return Gguf(tensors=list(tensors), data=bytes(size))


# Content of the file, and a part of the message.
BAD = {
    "empty": (b"", "is empty"),
    "one byte": (b"G", "is not a GGUF file"),
    "magic alone": (b"GGUF", "the version needs 4 bytes"),
    "text": (b"import os\n" * 9, "is not a GGUF file"),
    "bad magic": (Gguf(magic=b"GGUG"), "is not a GGUF file"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    "web page": (b"<!DOCTYPE html><html></html>", "web page"),
    "zip": (b"PK\x03\x04" + bytes(60), "PyTorch"),
    "safetensors": (u64(80) + b'{"__metadata__":{}}' + bytes(80), "safetensors"),
    "GGJT": (b"tjgg" + bytes(60), "GGJT"),
    "byte-swapped magic": (Gguf(magic=b"FUGG"), "byte-swapped"),
    "big-endian": (Gguf(version=struct.pack(">I", 3)), "byte-swapped"),
    "version 0": (Gguf(version=u32(0)), "version 0"),
    "version 1": (Gguf(version=u32(1)), "version 1"),
    "version 4": (Gguf(version=u32(4)), "version 4"),
    "version 999": (Gguf(version=u32(999)), "version 999"),
    "tensors 2^64-1": (Gguf(n_tensors=HUGE), f"the list of tensors needs {HUGE}"),
    "tensors 2^63": (Gguf(n_tensors=2**63), "the list of tensors needs"),
    "tensors 2^40": (Gguf(n_tensors=2**40), "the list of tensors needs"),
    "one tensor too many": (Gguf(n_tensors=2, data=b""), "the list of tensors needs 2"),
    "entries 2^64-1": (Gguf(n_entries=HUGE), f"the metadata needs {HUGE}"),
    "entries 2^40": (Gguf(n_entries=2**40), "the metadata needs"),
    "key length 0": (Gguf(entries=[entry("", U8, b"\0")]), "the length of metadata key 0 is 0"),
    "key length 2^64-1": (Gguf(entries=[u64(HUGE) + b"k" * 99]), f"the length of metadata key 0 is {HUGE}"),
    "key length 70000": (Gguf(entries=[entry("k" * 70000, U8, b"\0")]), "the length of metadata key 0 is 70000"),
    "string length 2^64-1": (with_entry(STRING, u64(HUGE)), f'metadata "key" needs {HUGE} bytes'),
    "string length 2^63": (with_entry(STRING, u64(2**63)), 'metadata "key" needs'),
    "array of 2^64-1": (with_entry(ARRAY, array(U32, HUGE)), f"needs {HUGE} elements of at least 4 bytes"),
    "array of 2^62+1": (with_entry(ARRAY, array(U32, 2**62 + 1)), "elements of at least 4 bytes"),
    "array of 2^61 strings": (with_entry(ARRAY, array(STRING, 2**61)), "elements of at least 8 bytes"),
    "array element too long": (with_entry(ARRAY, array(STRING, 2, string("a") + u64(2**40))), f"needs {2**40} bytes"),
    "array of arrays of 2^60": (with_entry(ARRAY, array(ARRAY, 1, array(U16, 2**60))), "elements of at least 2 bytes"),
    "arrays nested 6 deep": (with_entry(ARRAY, nested(6, array(U8, 1, b"\0"))), "nested more than 4 levels deep"),
    "value type 13": (with_entry(13, bytes(8)), "unknown value type 13"),
    "value type 2^32-1": (with_entry(2**32 - 1, bytes(8)), f"unknown value type {2**32 - 1}"),
    "element type 13": (with_entry(ARRAY, array(13, 0)), "unknown value type 13"),
    "inner element type 99": (with_entry(ARRAY, array(ARRAY, 1, array(99, 0))), "unknown value type 99"),
    "two equal keys": (Gguf(entries=[entry("key", U8, b"\1")] * 2), 'there are two metadata keys "key"'),
    "two equal tensors": (with_tensors(tensor("t", [8]), tensor("t", [8], offset=32)), 'there are two tensors "t"'),
    "tensor without name": (with_tensors(tensor("", [8])), "the length of the name of tensor 0 is 0"),
    "0 dimensions": (with_tensors(tensor("t", [])), "has 0 dimensions"),
    "5 dimensions": (with_tensors(tensor("t", [1] * 5)), "has 5 dimensions"),
    "2^32-1 dimensions": (with_tensors(tensor("t", [1], n_dims=2**32 - 1)), "dimensions, expected 1 to 4"),
    "dimension 0": (with_tensors(tensor("t", [4, 0])), "a dimension of size 0"),
    "dimension 2^63": (with_tensors(tensor("t", [2**63])), 'the size of tensor "t" overflows'),
    "dimension 2^64-1": (with_tensors(tensor("t", [HUGE])), 'the size of tensor "t" overflows'),
    "elements 2^65": (with_tensors(tensor("t", [2**33, 2**32])), 'the size of tensor "t" overflows'),
    "elements 0 mod 2^64": (with_tensors(tensor("t", [2**32, 2**32])), 'the size of tensor "t" overflows'),
    "bytes 2^64": (with_tensors(tensor("t", [2**62])), 'the size of tensor "t" overflows'),
    "33 columns of Q4_0": (with_tensors(tensor("t", [33, 4], Q4_0)), "33 columns, not a multiple of 32"),
    "128 columns of Q4_K": (with_tensors(tensor("t", [128, 4], Q4_K)), "128 columns, not a multiple of 256"),
    "type 43": (with_tensors(tensor("t", [32], 43)), "unknown type 43"),
    "type 98": (with_tensors(tensor("t", [32], 98)), "unknown type 98"),
    "type -1": (with_tensors(tensor("t", [32], -1)), "unknown type -1"),
    "type Q4_2": (with_tensors(tensor("t", [32], Q4_2)), "Q4_2, which llama.cpp dropped"),
    "type Q4_0_4_4": (with_tensors(tensor("t", [32], Q4_0_4_4)), "Q4_0_4_4, which llama.cpp dropped"),
    "alignment 0": (Gguf(entries=[entry("general.alignment", U32, u32(0))]), "not a power of two"),
    "alignment 24": (Gguf(entries=[entry("general.alignment", U32, u32(24))]), "not a power of two"),
    "alignment of another type": (
        Gguf(entries=[entry("general.alignment", STRING, string("32"))]),
        "not a power of two",
    ),
    "alignment beyond the file": (Gguf(entries=[entry("general.alignment", U32, u32(2**31))]), "truncated"),
    "offset unaligned": (with_tensors(tensor("t", [8], offset=4)), "not a multiple of 32"),
    "offset past the end": (with_tensors(tensor("t", [8], offset=2**20)), "truncated"),
    "offset near 2^64": (with_tensors(tensor("t", [8], offset=2**64 - 32)), "overflows"),
    "offset near 2^63": (with_tensors(tensor("t", [8], offset=2**63)), "truncated"),
    "data one byte short": (Gguf(data=bytes(64 * 4 * 4 - 1)), "truncated"),
    "data missing": (Gguf(data=b""), "truncated"),
    "overlap": (with_tensors(tensor("t", [16]), tensor("u", [8], offset=32)), 'tensors "t" and "u" overlap'),
    "overlap, out of order": (
        with_tensors(tensor("u", [8], offset=32), tensor("t", [16])),
        'tensors "t" and "u" overlap',
    ),
    "same place": (with_tensors(tensor("t", [8]), tensor("u", [8])), "overlap"),
    "MXFP6 of 8 rows": (
        Gguf(entries=[LAYOUT], tensors=[tensor("t", [32, 8], MXFP6_E2M3)]),
        "8 rows, not a multiple of 16 as MXFP6_E2M3 needs",
    ),
    "MXFP6 of one dimension": (Gguf(entries=[LAYOUT], tensors=[tensor("t", [32], MXFP6_E2M3)]), "1 rows"),
    "MXFP6 of 48 columns": (Gguf(entries=[LAYOUT], tensors=[tensor("t", [48, 16], MXFP6_E2M3)]), "48 columns"),
    "MXFP6 in E3M2": (
        Gguf(entries=[LAYOUT], tensors=[tensor("t", [32, 16], MXFP6_E3M2)]),
        'tensor "t" has type MXFP6_E3M2, which only earlier versions read; quantize the model again',
    ),
    "MXFP6 without layout": (with_tensors(tensor("t", [32, 16], MXFP6_E2M3)), "mxfp6.layout = 1"),
    "MXFP6 of another layout": (
        Gguf(entries=[entry("mxfp6.layout", U32, u32(2))], tensors=[tensor("t", [32, 16], MXFP6_E2M3)]),
        "mxfp6.layout = 1",
    ),
}

GOOD = {
    "plain": Gguf(),
    "version 2": Gguf(version=u32(2)),
    "no tensors": Gguf(tensors=[], data=b""),
    "nothing at all": Gguf(entries=[], tensors=[], data=b""),
    "arrays nested 4 deep": with_entry(ARRAY, nested(4, array(U8, 2, b"\1\2"))),
    "empty arrays": Gguf(entries=[entry("a", ARRAY, array(STRING, 0)), entry("b", ARRAY, array(F32, 0))]),
    "alignment 64": Gguf(entries=[entry("general.alignment", U32, u32(64))], alignment=64),
    "tensors out of order": with_tensors(tensor("b", [8], offset=64), tensor("a", [8])),
    "MXFP6 of 3 dimensions": Gguf(entries=[LAYOUT], tensors=[tensor("t", [32, 16, 2], MXFP6_E2M3)]),
    "four dimensions": with_tensors(tensor("t", [2, 3, 4, 5])),
    "bytes that are not UTF-8": Gguf(entries=[entry(b"k\xff\x1b[2J", STRING, string(b"\xfe\x00\x07"))]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file(specdec: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    content, message = BAD[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content if isinstance(content, bytes) else content.build())
    for command in (["info", path], ["generate", "-p", "x", "-m", path]):
        result = run(specdec, *command)
        assert result.returncode == 1
        assert result.stdout == ""
        assert message in result.stderr
        assert f"specdec {command[0]}: {path}: " in result.stderr
        assert "; " in result.stderr, "a remedy"
        assert result.stderr.count("\n") == 1


def test_a_name_that_is_no_text_is_a_model_error_in_python(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    for name in (b"\xff\xfe.weight", "é".encode() * 79):  # the second is cut inside a character
        path.write_bytes(with_tensors(tensor(name, [32], 55)).build())
        with pytest.raises(sd.ModelError, match="unknown type 55"):
            sd.Generator(path, draft=None)


@pytest.mark.parametrize("name", GOOD)
def test_good_file(specdec: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GOOD[name].build())
    for options in ([], ["--metadata", "--tensors"], ["--json"], ["--json", "--metadata"]):
        result = run(specdec, "info", path, *options)
        assert (result.returncode, result.stderr) == (0, "")
        assert "\x1b" not in result.stdout


def test_paths_that_are_no_files(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    cases = {
        "missing.gguf": "no such file",
        ".": "is a directory",
        "fifo": "is not a regular file",
        "a" * 300: "cannot be read",
    }
    for name, message in cases.items():
        result = run(specdec, "info", tmp_path / name)
        assert result.returncode == 1
        assert message in result.stderr
    assert "(empty path): no such file" in run(specdec, "info", "").stderr


def test_a_path_with_a_nul_character() -> None:
    for use in (lambda path: sd.Generator(path), lambda path: sd.Generator(draft=path)):
        with pytest.raises(
            sd.ModelError, match=r"^a\\x00b\.gguf: is not a path: it has a NUL character; check the path$"
        ):
            use("a\0b.gguf")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Gguf().build())
    path.chmod(0)
    result = run(specdec, "info", path)
    assert result.returncode == 1
    assert "Permission denied" in result.stderr


def test_where_a_truncated_file_ends(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    content = Gguf().build()
    path = tmp_path / "model.gguf"
    path.write_bytes(content[:-100])
    expected = f'truncated: tensor "a.weight" ends at byte {len(content)}, but the file has {len(content) - 100} bytes'
    assert expected in run(specdec, "info", path).stderr


@pytest.fixture
def written(tmp_path: pathlib.Path) -> bytes:
    """A small valid file as the gguf package writes it: every value type, several tensor types, a tokenizer."""
    writer = gguf.GGUFWriter(tmp_path / "written.gguf", "llama")
    writer.add_name("Tiny")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(64)
    writer.add_bool("test.bool", True)
    writer.add_int8("test.i8", -8)
    writer.add_int64("test.i64", -(2**40))
    writer.add_uint64("test.u64", 2**63)
    writer.add_float64("test.f64", 0.1)
    writer.add_array("test.i32s", [1, -2, 3])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b", "ä", "<eos>"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_token_merges(["a b"])
    values = np.arange(64 * 16, dtype=np.float32).reshape(16, 64)
    writer.add_tensor("token_embd.weight", values.astype(np.float16))
    writer.add_tensor("blk.0.attn_q.weight", values)
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("blk.0.attn_k.weight", gguf.quants.quantize(values, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return (tmp_path / "written.gguf").read_bytes()


def mutations(content: bytes, header: int) -> list[bytes]:
    """Flipped bytes, set bytes, whole integers overwritten and truncations, all over the header; reproducible."""
    generator = random.Random(1)
    result = [content[:length] for length in range(0, header, max(1, header // 150))]
    for at in range(header):
        if at % 5 == 0 or at < 64:
            result.append(content[:at] + bytes([content[at] ^ (1 << generator.randrange(8))]) + content[at + 1 :])
    for _ in range(300):
        at = generator.randrange(4, header - 8)
        value = generator.choice([0, 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1, generator.randrange(2**64)])
        size = generator.choice([1, 4, 8])
        result.append(content[:at] + u64(value)[:size] + content[at + size :])
    return result


# Every file in the folder, one process each; a line with the exit code for each.
SWEEP = (
    'cd "$1"; for file in *.gguf; do "$2" info --json "$file" > /dev/null 2> error; echo "$file $? $(wc -l '
    '< error)"; done'
)


def test_no_mutation_of_a_header_crashes(specdec: pathlib.Path, tmp_path: pathlib.Path, written: bytes) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    files = mutations(written, written.index(bytes(np.arange(16, dtype=np.float16).data)))
    for i, content in enumerate(files):
        (folder / f"{i:04}.gguf").write_bytes(content)
    with subprocess.Popen(
        ["bash", "-c", SWEEP, "sweep", folder, specdec], stdout=subprocess.PIPE, text=True
    ) as process:
        output = process.communicate(timeout=300)[0]
    lines = [line.split() for line in output.splitlines()]
    assert len(lines) == len(files) >= 600
    for name, code, errors in lines:
        assert (code, errors) in {("0", "0"), ("0", "1"), ("1", "1")}, name
    assert sum(code == "1" for _, code, _ in lines) > 300


def test_memory_is_bounded_by_the_file(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Memory is not allocated for counts, only for elements that were read, also if a large sparse file could hold
    them."""
    sparse = Gguf(entries=[entry("key", ARRAY, array(U8, 2**36))], n_tensors=2**30).header()
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.write(sparse)
        file.truncate(2**37)
    # By a small process in between: a child's peak begins with the size of the process that started it.
    measure = "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode"
    measure += "; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
    command = [sys.executable, "-c", measure, str(specdec), "info", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert f'metadata "key" has {2**36} bytes' in result.stderr
    assert int(result.stdout) < 100_000 * (1024 if sys.platform == "darwin" else 1)  # macOS counts bytes


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (Gguf(n_entries=2**16 + 1, entries=[]), "the metadata has 65537 entries, expected at most 65536"),
        (Gguf(n_tensors=2**20 + 1), "the file has 1048577 tensors, expected at most 1048576"),
        (Gguf(entries=[entry("key", STRING, u64(2**28 + 1))]), f'metadata "key" has {2**28 + 1} bytes'),
        (Gguf(entries=[entry("key", ARRAY, array(STRING, 2, u64(2**28)))]), "the header has more than 268435456 bytes"),
    ],
    ids=["entries", "tensors", "a text", "all together"],
)
def test_headers_have_a_largest_size(specdec: pathlib.Path, tmp_path: pathlib.Path, header: Gguf, message: str) -> None:
    """Otherwise a header of millions of keys would take gigabytes and minutes."""
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(header.header())
        file.truncate(2**30)
    result = run(specdec, "info", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr


# ---- whole files that llama.cpp would abort on


def model(*entries: bytes) -> Gguf:
    return Gguf(entries=[entry("general.architecture", STRING, string("llama")), *entries])


def number(key: str, value: int) -> bytes:
    return entry(f"llama.{key}", U32, u32(value))


def tokens(*texts: str) -> bytes:
    return entry("tokenizer.ggml.tokens", ARRAY, array(STRING, len(texts), b"".join(map(string, texts))))


def heads(count: int, width: int) -> tuple[bytes, bytes]:
    return number("attention.head_count", count), number("embedding_length", width)


ASSERTED = {
    "no layers": (model(number("block_count", 0)), '"llama.block_count" is 0, expected 1 to 512'),
    "513 layers": (model(number("block_count", 513)), '"llama.block_count" is 513'),
    "layers of another type": (
        model(entry("llama.block_count", STRING, string("8"))),
        '"llama.block_count" is not a whole number',
    ),
    "more prediction layers than layers": (
        model(number("block_count", 2), number("nextn_predict_layers", 3)),
        '"llama.nextn_predict_layers" is 3, expected 0 to 1',
    ),
    "context of 2^31": (model(number("context_length", 2**31)), '"llama.context_length" is 2147483648'),
    "context of 0": (model(number("context_length", 0)), '"llama.context_length" is 0'),
    "vocabulary of 2^32-1": (model(number("vocab_size", 2**32 - 1)), '"llama.vocab_size" is 4294967295'),
    "1025 experts": (
        model(number("expert_count", 1025), number("expert_used_count", 2)),
        '"llama.expert_count" is 1025',
    ),
    "experts unused": (model(number("expert_count", 8)), "is 0 of 8 experts"),
    "experts used, none there": (model(number("expert_used_count", 2)), "is 2 of 0 experts"),
    "experts used by layer": (
        model(number("expert_count", 8), entry("llama.expert_used_count", ARRAY, array(U32, 2, u32(2) + u32(9)))),
        "is 9 of 8 experts",
    ),
    "groups of experts": (
        model(number("expert_count", 8), number("expert_used_count", 2), number("expert_group_count", 3)),
        "is 3, which does not divide 8 experts",
    ),
    "no group used": (
        model(number("expert_count", 8), number("expert_used_count", 2), number("expert_group_count", 2)),
        '"llama.expert_group_used_count" is not between 1',
    ),
    "rope scaling": (
        model(entry("llama.rope.scaling.type", STRING, string("wide"))),
        'is "wide", expected none, linear, yarn or',
    ),
    "epsilon negative": (
        model(entry("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", -1e-5))),
        "is not a number of at least 0",
    ),
    "epsilon NaN": (
        model(entry("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", float("nan")))),
        "is not a number of at least 0",
    ),
    "two equal tokens": (
        model(tokens("a", "", "b", "", "a")),
        '"tokenizer.ggml.tokens" has "a" twice, again as token 4',
    ),
    "a token of 70,000 bytes": (
        model(tokens("a", "x" * 70_000)),
        '"tokenizer.ggml.tokens" has 70000 bytes for token 1, expected at most 2048',
    ),
    "norm of integers": (with_tensors(tensor("blk.0.attn_norm.weight", [8], 26)), "has type I32, expected F32"),
    "an interval of no layers, which llama.cpp divides by": (
        model(number("full_attention_interval", 0)),
        "is 0, expected 1 to 512",
    ),
    "heads of RWKV that ggml would read past": (model(number("wkv.head_size", 32)), "is 32, expected a multiple of 64"),
    "no rotated dimension": (model(*heads(4, 64), number("rope.dimension_count", 0)), "is 0, expected 2 to 16"),
    "an odd number of rotated dimensions": (model(*heads(4, 64), number("rope.dimension_count", 15)), "is odd"),
    "more rotated dimensions than a head has": (
        model(*heads(4, 64), number("rope.dimension_count", 18)),
        "is 18, expected 2 to 16",
    ),
    "rotated dimensions that are negative as 32 bits": (
        model(*heads(4, 64), number("rope.dimension_count", 2**32 - 2)),
        "is 4294967294, expected 2 to 16",
    ),
    "no rotated dimension in windows": (
        model(*heads(4, 64), number("attention.key_length_swa", 8), number("rope.dimension_count_swa", 0)),
        '"llama.rope.dimension_count_swa" is 0, expected 2 to 8',
    ),
    "sections of positions that are all empty": (
        model(entry("llama.rope.dimension_sections", ARRAY, array(I32, 4, bytes(16)))),
        "has no section of at least one dimension",
    ),
    "sections of positions of which ggml reads three": (
        model(entry("llama.rope.dimension_sections", ARRAY, array(I32, 4, bytes(12) + u32(1)))),
        "has no section of at least one dimension",
    ),
    "sections of positions that exceed a head": (
        model(
            *heads(4, 64),
            entry("llama.rope.dimension_sections", ARRAY, array(I32, 4, u32(8) + u32(4) + u32(4) + u32(1))),
        ),
        '"llama.rope.dimension_sections" adds up to 17 dimensions, more than the 16 that are rotated',
    ),
    "sections of positions that exceed the rotated part of a head": (
        model(
            *heads(4, 64),
            number("rope.dimension_count", 8),
            entry("llama.rope.dimension_sections", ARRAY, array(I32, 3, u32(3) + u32(3) + u32(3))),
        ),
        "adds up to 9 dimensions, more than the 8 that are rotated",
    ),
    "a block of 2^32-1 tokens": (
        model(entry("llama.attention.compress_ratios", ARRAY, array(U32, 2, u32(4) + u32(2**32 - 1)))),
        '"llama.attention.compress_ratios" is 4294967295, expected 0 to 65536',
    ),
    "no heads, by which llama.cpp divides": (
        Gguf(entries=[entry("general.architecture", STRING, string("olmo2"))]),
        '"olmo2.attention.head_count" is missing or 0',
    ),
    "no experts used, by which llama.cpp divides": (
        Gguf(entries=[entry("general.architecture", STRING, string("qwen3moe"))]),
        '"qwen3moe.expert_used_count" is missing or 0',
    ),
    "no sections where positions have several dimensions": (
        Gguf(entries=[entry("general.architecture", STRING, string("paddleocr"))]),
        '"paddleocr.rope.dimension_sections" is missing or 0',
    ),
    "heads counted below zero": (
        model(entry("llama.attention.head_count_kv", I32, struct.pack("<i", -1))),
        '"llama.attention.head_count_kv" is -1, expected 0 to 65536',
    ),
    "more heads with keys than with queries": (
        model(*heads(4, 64), number("attention.head_count_kv", 65536)),
        '"llama.attention.head_count_kv" is 65536 with 4 query heads',
    ),
    "no layer but those for further tokens": (
        model(number("block_count", 2), number("nextn_predict_layers", 2)),
        '"llama.nextn_predict_layers" is 2, expected 0 to 1',
    ),
    "a window of 2^31-1": (
        model(number("attention.sliding_window", 2**31 - 1)),
        "is 2147483647, expected 0 to 1073741824",
    ),
    "a key length by layer that is no number": (
        model(entry("llama.attention.key_length", ARRAY, array(STRING, 1, string("x")))),
        "is not a whole number",
    ),
}


@pytest.mark.parametrize("name", ASSERTED)
def test_metadata_that_llama_cpp_asserts(specdec: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    """Not a usable model, but a valid file: info shows it, with a warning."""
    content, message = ASSERTED[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content.build())
    result = run(specdec, "generate", "-p", "x", "-m", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr
    result = run(specdec, "info", path)
    assert result.returncode == 0
    assert "warning: this model cannot run here" in result.stderr
    assert message in result.stderr
    assert "Format        GGUF 3" in result.stdout


# ---- models in several files


@pytest.fixture
def parts(tmp_path: pathlib.Path) -> list[pathlib.Path]:
    """Three parts as the gguf package writes them, one tensor each."""
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama", split_max_tensors=1)
    writer.add_uint32("mxfp6.layout", 1)
    for i in range(3):
        writer.add_tensor(f"blk.{i}.weight", np.zeros((16, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(tmp_path.glob("model-*.gguf"))


def split_entries(number: int, count: int) -> list[bytes]:
    return [
        entry("split.no", U16, struct.pack("<H", number)),
        entry("split.count", U16, struct.pack("<H", count)),
        entry("split.tensors.count", I32, struct.pack("<i", count)),
    ]


def test_parts_are_read_from_any_one(specdec: pathlib.Path, parts: list[pathlib.Path]) -> None:
    assert [path.name for path in parts] == [f"model-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for part in parts:
        result = run(specdec, "info", part, "--tensors")
        assert (result.returncode, result.stderr) == (0, "")
        for path in parts:
            assert str(path) in result.stdout
        assert "3 tensors" in result.stdout


def damage_parts(parts: list[pathlib.Path], name: str) -> str:
    first, second, third = parts
    one = [tensor("blk.1.weight", [32, 16])]
    same_name = [tensor("blk.0.weight", [32, 16])]
    if name == "missing":
        third.unlink()
        return "no such file, but the model has 3 parts"
    if name == "renamed":
        first.rename(first.with_name("other.gguf"))
        return "its name does not end in -00001-of-00003.gguf"
    if name == "swapped":
        second.write_bytes(third.read_bytes())
        return "does not say that it is part 2 of 3"
    if name == "from another split":
        second.write_bytes(Gguf(entries=split_entries(1, 4), tensors=one, data=bytes(2048)).build())
        return "does not say that it is part 2 of 3"
    if name == "same tensor":
        second.write_bytes(Gguf(entries=split_entries(1, 3), tensors=same_name, data=bytes(2048)).build())
        return "is in another part already"
    if name == "tensor missing":
        second.write_bytes(Gguf(entries=split_entries(1, 3), tensors=[], data=b"").build())
        return "split.tensors.count says otherwise"
    if name == "truncated":
        second.write_bytes(second.read_bytes()[:-1])
        return "truncated"
    first.write_bytes(Gguf(entries=split_entries(7, 3), tensors=one, data=bytes(2048)).build())
    return "says that it is part 7 of 3"


DAMAGES = [
    "missing",
    "renamed",
    "swapped",
    "from another split",
    "same tensor",
    "tensor missing",
    "truncated",
    "part 7 of 3",
]


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_parts(specdec: pathlib.Path, parts: list[pathlib.Path], name: str) -> None:
    """A model with a bad part cannot run; info still shows the part that is named."""
    message = damage_parts(parts, name)
    path = next(path for path in (parts[0], parts[0].with_name("other.gguf")) if path.exists())
    result = run(specdec, "generate", "-p", "x", "-m", path)
    assert result.returncode == 1
    assert message in result.stderr
    result = run(specdec, "info", path)
    assert result.returncode == 0
    assert message in result.stderr
    assert "warning: this model cannot run here" in result.stderr


def test_later_parts_rely_on_the_first_for_the_layout(specdec: pathlib.Path, parts: list[pathlib.Path]) -> None:
    mxfp6 = Gguf(entries=split_entries(1, 3), tensors=[tensor("blk.1.weight", [32, 16], MXFP6_E2M3)], data=bytes(416))
    parts[1].write_bytes(mxfp6.build())
    for part in parts:
        assert "MXFP6_E2M3" in run(specdec, "info", part).stdout
