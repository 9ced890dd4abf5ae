"""Builds GGUF files byte by byte, so that every field can be wrong. See cpp/gguf/gguf_file.h for the layout."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def array(element_type: int, count: int, elements: bytes = b"") -> bytes:
    return u32(element_type) + u64(count) + elements


def entry(key: str | bytes, value_type: int, value: bytes) -> bytes:
    return string(key) + u32(value_type) + value


def tensor(
    name: str | bytes, shape: list[int], ggml_type: int = 0, offset: int = 0, n_dims: int | None = None
) -> bytes:
    dimensions = u32(len(shape) if n_dims is None else n_dims) + b"".join(u64(size) for size in shape)
    return string(name) + dimensions + u32(ggml_type & 0xFFFFFFFF) + u64(offset)


@dataclass
class Gguf:
    """Without arguments: a valid file of one entry and one F32 tensor of 64 x 4."""

    entries: list[bytes] = field(default_factory=lambda: [entry("general.architecture", STRING, string("test"))])
    tensors: list[bytes] = field(default_factory=lambda: [tensor("a.weight", [64, 4])])
    data: bytes = bytes(64 * 4 * 4)
    magic: bytes = b"GGUF"
    version: bytes = u32(3)
    n_tensors: int | None = None
    n_entries: int | None = None
    alignment: int = 32

    def header(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_entries = len(self.entries) if self.n_entries is None else self.n_entries
        counts = u64(n_tensors) + u64(n_entries)
        return self.magic + self.version + counts + b"".join(self.entries) + b"".join(self.tensors)

    def build(self) -> bytes:
        header = self.header()
        return header + bytes(-len(header) % self.alignment) + self.data
