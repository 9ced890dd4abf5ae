"""Pictures that callers give, as the bytes of files for the engine."""

from __future__ import annotations

import base64
import binascii
import io
import os
import pathlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from . import _core


@runtime_checkable
class PilImage(Protocol):
    """What is used of PIL.Image.Image."""

    mode: str

    def convert(self, mode: str) -> Any: ...
    def save(self, fp: Any, format: str) -> None: ...


Image = str | os.PathLike[str] | bytes | bytearray | memoryview | npt.NDArray[np.uint8] | PilImage
Picture = tuple[str, bytes]  #: a name for errors, and the bytes of a PNG, JPEG, GIF or BMP file

_CHANNELS = {1: 0, 3: 2, 4: 6}  # PNG's colour types
_TYPES = ("image", "image_url", "input_image")
_FIELDS = ("image", "image_url", "url", "path", "data")


def pictures_of(name: str, images: Image | Sequence[Image]) -> list[Picture]:
    """The pictures of an `images` argument: one, or a list."""
    if isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview, np.ndarray, PilImage)):
        return [picture(name, images)]
    return [picture(f"{name}[{i}]", image) for i, image in enumerate(images)]


def picture(name: str, image: Any) -> Picture:
    """Raises TypeError, ValueError for a data URL or an array that holds no picture, OSError for a file."""
    if isinstance(image, str) and image.startswith("data:"):
        return name, _of_data_url(name, image)
    if isinstance(image, str) and image.startswith(("http://", "https://")):
        raise ValueError(f"{name} is a URL, and nothing is fetched here; give a path or the bytes")
    if isinstance(image, (str, os.PathLike)):
        return os.fspath(image), pathlib.Path(image).read_bytes()
    if isinstance(image, (bytes, bytearray, memoryview)):
        return name, bytes(image)
    if isinstance(image, np.ndarray):
        return name, _png(name, image)
    if isinstance(image, PilImage):
        buffer = io.BytesIO()
        kept = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGBA" if "A" in image.mode else "RGB")
        kept.save(buffer, "PNG")
        return name, buffer.getvalue()
    raise TypeError(
        f"{name} is {type(image).__name__}; it must be a path, bytes, a data URL, an array of uint8 or a PIL image"
    )


def _of_data_url(name: str, url: str) -> bytes:
    head, _, data = url.partition(",")
    try:
        if ";base64" not in head:
            raise binascii.Error
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise ValueError(f"{name} must be a data URL in base64 (data:image/png;base64,...)") from None


def _png(name: str, pixels: npt.NDArray[Any]) -> bytes:
    """An array [height, width] or [height, width, 1, 3 or 4] of uint8 as a PNG file."""
    if pixels.ndim == 2:
        pixels = pixels[:, :, np.newaxis]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in _CHANNELS or 0 in pixels.shape:
        raise ValueError(
            f"{name} is an array of {pixels.dtype} with the shape {pixels.shape}; it must be uint8 with the shape "
            "(height, width) or (height, width, 1, 3 or 4)"
        )
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with 0: no filter
    rows[:, 1:] = pixels.reshape(height, width * channels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, _CHANNELS[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1))
        + chunk(b"IEND", b"")
    )


def is_picture(part: Any) -> bool:
    """Whether a part of a message's content is a picture, in OpenAI's, transformers' or Anthropic's form."""
    return isinstance(part, Mapping) and part.get("type") in _TYPES


def take_pictures(messages: Sequence[Any], images: Image | Sequence[Image] | None) -> tuple[list[Any], list[Picture]]:
    """The messages with marks where their pictures were, and the pictures. `images` come before the last user's text.

    The content of a message with pictures becomes one text, its parts joined with line breaks, as in the server.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        return cast("list[Any]", messages), []  # an error that `conversation` explains
    pictures: list[Picture] = []

    def mark(found: Picture) -> str:
        pictures.append(found)
        return _core.picture_mark(len(pictures) - 1)

    last_user = max((i for i, message in enumerate(messages) if _role(message) == "user"), default=None)
    if images is not None and last_user is None:
        raise ValueError("images needs a message of the user, before whose text they come")
    result = []
    for i, message in enumerate(messages):
        own = images if i == last_user else None
        content = message.get("content") if isinstance(message, Mapping) else None
        parts = content if isinstance(content, (list, tuple)) else [{"type": "text", "text": content}]
        if not isinstance(message, Mapping) or (own is None and not any(map(is_picture, parts))):
            result.append(message)
            continue
        texts = [mark(found) for found in pictures_of("images", own)] if own is not None else []
        for j, part in enumerate(parts):
            name = f"messages[{i}].content[{j}]"
            if is_picture(part):
                texts.append(mark(picture(name, _image_of(name, part))))
            elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                raise ValueError(f'{name} must be a picture or {{"type": "text", "text": ...}}')
        result.append({**message, "content": "\n".join(texts)})
    return result, pictures


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None


def _image_of(name: str, part: Mapping[str, Any]) -> Any:
    given = next((part[field] for field in _FIELDS if part.get(field) is not None), None)
    if isinstance(given, Mapping):  # OpenAI's {"url": ...}
        given = given.get("url")
    if given is None:
        raise ValueError(f'{name} is a picture without one; give it as "image" or "image_url"')
    return given
