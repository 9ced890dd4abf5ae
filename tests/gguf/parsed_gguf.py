"""Sound GGUF files taken apart, changed in one place, and put together again."""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass, replace

from gguf import GGML_QUANT_SIZES
from gguf_bytes import ARRAY, BOOL, F32, F64, I8, I16, I32, I64, STRING, U8, U16, U32, U64, Gguf, array, entry
from gguf_bytes import tensor as tensor_entry

FIXED = {U8: 1, I8: 1, U16: 2, I16: 2, U32: 4, I32: 4, F32: 4, BOOL: 1, U64: 8, I64: 8, F64: 8}
# Elements and bytes of a block, of types that gguf does not have.
SIZES = {40: (64, 36), 41: (128, 18), 42: (64, 18), 96: (32, 25), 97: (32, 25)}
MANY = 1 << 22  # elements of a tensor that a test still writes


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


@dataclass(frozen=True)
class Stored:
    """A tensor with its bytes."""

    name: str
    shape: list[int]
    kind: int
    data: bytes

    @property
    def size(self) -> int:
        """Bytes that the type and the shape need; of what no file can hold, those that it has."""
        elements, sizes = (
            math.prod(self.shape),
            {**SIZES, **{int(kind): size for kind, size in GGML_QUANT_SIZES.items()}},
        )
        block, size = sizes.get(self.kind, (0, 0))
        return elements // block * size if 0 < elements < MANY and block > 0 else len(self.data)


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

    def with_tensor(self, name: str, *, shape: list[int] | None = None, kind: int | None = None) -> Parsed:
        """One tensor of another shape or type, with as many bytes as that needs: its own, or zeros."""
        changed = []
        for tensor in self._stored():
            if tensor.name == name:
                new = replace(tensor, shape=shape or tensor.shape, kind=tensor.kind if kind is None else kind)
                data = tensor.data[: new.size] if new.kind == tensor.kind else b""
                tensor = replace(new, data=data.ljust(new.size, b"\0"))
            changed.append(tensor)
        return self._with_stored(changed)

    def without_tensor(self, name: str) -> Parsed:
        return self._with_stored([tensor for tensor in self._stored() if tensor.name != name])

    def _stored(self) -> list[Stored]:
        ends = [*(at for _, _, _, at in self.tensors[1:]), len(self.data)]
        return [
            Stored(name, shape, kind, self.data[at:end])
            for (name, shape, kind, at), end in zip(self.tensors, ends, strict=True)
        ]

    def _with_stored(self, stored: list[Stored]) -> Parsed:
        """Laid out one after the other, as llama.cpp wants it: it rejects a file whose offsets do not follow from
        the sizes."""
        tensors, data = [], b""
        for tensor in stored:
            tensors.append((tensor.name, tensor.shape, tensor.kind, len(data)))
            data += tensor.data.ljust((len(tensor.data) + 31) // 32 * 32, b"\0")
        return Parsed(self.entries, tensors, data)

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
