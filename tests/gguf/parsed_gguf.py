"""Sound GGUF files taken apart, changed in one place, and put together again."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass

from gguf_bytes import ARRAY, BOOL, F32, F64, I8, I16, I32, I64, STRING, U8, U16, U32, U64, Gguf, array, entry
from gguf_bytes import tensor as tensor_entry

FIXED = {U8: 1, I8: 1, U16: 2, I16: 2, U32: 4, I32: 4, F32: 4, BOOL: 1, U64: 8, I64: 8, F64: 8}


def elements_of(value: bytes) -> list[bytes]:
    """The elements of an array, as they are stored."""
    inner, count = struct.unpack_from("<IQ", value, 0)
    ends = list(itertools.accumulate(range(count), lambda at, _: value_end(value, at, inner), initial=12))
    return [value[begin:end] for begin, end in itertools.pairwise(ends)]


def value_end(data: bytes, at: int, kind: int) -> int:
    """Where a value of a sound file ends."""
    if kind == STRING:
        return at + 8 + int(struct.unpack_from("<Q", data, at)[0])
    if kind != ARRAY:
        return at + FIXED[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = value_end(data, at, inner)
    return at


@dataclass
class Parsed:
    """A sound file taken apart."""

    entries: dict[str, tuple[int, bytes]]  # key: type, value
    tensors: list[tuple[str, list[int], int, int]]  # name, shape, type, offset
    data: bytes

    @classmethod
    def of(cls, content: bytes) -> Parsed:
        num_tensors, num_entries = struct.unpack_from("<QQ", content, 8)
        at, entries = 24, {}
        for _ in range(num_entries):
            end = value_end(content, at, STRING)
            key, (kind,) = content[at + 8 : end].decode(), struct.unpack_from("<I", content, end)
            stop = value_end(content, end + 4, kind)
            entries[key], at = (kind, content[end + 4 : stop]), stop
        tensors = []
        for _ in range(num_tensors):
            end = value_end(content, at, STRING)
            name, (dims,) = content[at + 8 : end].decode(), struct.unpack_from("<I", content, end)
            shape = list(struct.unpack_from(f"<{dims}Q", content, end + 4))
            kind, offset = struct.unpack_from("<IQ", content, end + 4 + 8 * dims)
            tensors.append((name, shape, kind, offset))
            at = end + 4 + 8 * dims + 12
        return cls(entries, tensors, content[(at + 31) // 32 * 32 :])

    def with_type(self, name: str, kind: int) -> Parsed:
        """One tensor of another type, at the end of the data, where any type has room."""
        (shape,) = (shape for n, shape, _, _ in self.tensors if n == name)
        end = (len(self.data) + 31) // 32 * 32
        changed = [(n, s, kind if n == name else t, end if n == name else at) for n, s, t, at in self.tensors]
        return Parsed(self.entries, changed, self.data + bytes(end - len(self.data) + 8 * math.prod(shape)))

    def without(self, key: str) -> Parsed:
        return Parsed({k: v for k, v in self.entries.items() if k != key}, self.tensors, self.data)

    def with_entry(self, key: str, kind: int, value: bytes) -> Parsed:
        return Parsed({**self.entries, key: (kind, value)}, self.tensors, self.data)

    def with_elements(self, key: str, begin: int, end: int, element: bytes) -> Parsed:
        """Elements begin .. end - 1 of an array replaced."""
        stored = self.entries[key][1]
        (inner,), elements = struct.unpack_from("<I", stored), elements_of(stored)
        elements[begin:end] = [element] * (end - begin)
        return self.with_entry(key, ARRAY, array(inner, len(elements), b"".join(elements)))

    def build(self) -> bytes:
        entries = [entry(key, kind, value) for key, (kind, value) in self.entries.items()]
        tensors = [tensor_entry(name, shape, kind, offset) for name, shape, kind, offset in self.tensors]
        return Gguf(entries=entries, tensors=tensors, data=self.data).build()
