"""Pictures of every kind, made by PIL or by hand: decoded to the pixels that PIL reads, and files that are no such
pictures."""

from __future__ import annotations

import io
import pathlib
import random
import struct
import subprocess
import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageOps

pytestmark = pytest.mark.quick

Pixels = npt.NDArray[np.uint8]
Decode = Callable[..., list["Pixels | str"]]
Check = Callable[[bytes], "Pixels | str"]

PNG = b"\x89PNG\r\n\x1a\n"


class Decoder:
    def __init__(self, program: pathlib.Path, folder: pathlib.Path) -> None:
        self.program, self.folder, self.memory = program, folder, 0

    def many(self, files: list[bytes]) -> list[Pixels | str]:
        paths = [self.folder / str(i) for i in range(len(files))]
        for path, content in zip(paths, files, strict=True):
            path.write_bytes(content)
        result = subprocess.run([self.program, *paths], capture_output=True, check=False, timeout=120)
        assert result.returncode == 0, result.stderr
        self.memory = int(result.stderr)
        stream, read = io.BytesIO(result.stdout), []
        for _ in files:
            line = stream.readline().decode().rstrip()
            if line.startswith("error: "):
                read.append(line.removeprefix("error: "))
                continue
            assert line == "P6"
            width, height = map(int, stream.readline().split())
            assert stream.readline() == b"255\n"
            pixels = np.frombuffer(stream.read(3 * width * height), np.uint8)
            read.append(pixels.reshape(height, width, 3))
        assert not stream.read()
        return read

    def pixels(self, content: bytes) -> Pixels:
        (read,) = self.many([content])
        assert not isinstance(read, str), read
        return read

    def error(self, content: bytes) -> str:
        (read,) = self.many([content])
        assert isinstance(read, str)
        return read


@pytest.fixture
def decoder(built: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> Decoder:
    return Decoder(built("pictures/test_decoded_picture"), tmp_path)


# ---- Files


def smooth(width: int = 45, height: int = 30, channels: int = 3) -> Pixels:
    """[height, width, channels], not symmetric in any way."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 80 * np.sin(x / 9 + 2 * i) + 40 * np.cos(y / 7 + i) for i in range(channels)]
    return np.stack(planes, -1).clip(0, 255).astype(np.uint8)


def saved(pixels: Pixels, kind: str, mode: str | None = None, **options: object) -> bytes:
    """mode: converted to it."""
    image = Image.fromarray(pixels)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(rows: bytes, width: int, height: int, depth: int, colour: int, *more: bytes, interlaced: bool = False) -> bytes:
    """rows: each begins with its filter."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return b"".join(
        [PNG, chunk(b"IHDR", header), *more, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")],
    )


def as_pil(content: bytes) -> Pixels:
    """What a viewer shows: upright, over white."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    if image.mode == "P" or "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("LA", "RGBA"):
        rgba = np.asarray(image.convert("RGBA")).astype(int)
        alpha = rgba[..., 3:]
        return ((rgba[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return np.asarray(image.convert("RGB"))


def distance(a: Pixels, b: Pixels) -> int:
    assert a.shape == b.shape
    return int(np.abs(a.astype(int) - b).max())


# ---- Every kind

PICTURES = {
    "rgb.png": saved(smooth(), "PNG"),
    "grey.png": saved(smooth(), "PNG", "L"),
    "one bit.png": saved(smooth(), "PNG", "1"),
    "palette.png": saved(smooth(), "PNG", "P"),
    "transparent palette.png": saved(smooth(), "PNG", "P", transparency=3),
    "rgba.png": saved(smooth(channels=4), "PNG"),
    "grey and alpha.png": saved(smooth(channels=4), "PNG", "LA"),
    "transparent colour.png": saved(smooth(), "PNG", transparency=tuple(map(int, smooth()[3, 3]))),
    "profile.png": saved(smooth(), "PNG", icc_profile=b"a profile" * 50),
    "gamma.png": PNG + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(b"gAMA", bytes(4))
    + chunk(b"IDAT", zlib.compress(b"\0\1\2\3")) + chunk(b"IEND", b""),
    "rgb.bmp": saved(smooth(), "BMP"),
    "grey.bmp": saved(smooth(), "BMP", "L"),
    "one bit.bmp": saved(smooth(), "BMP", "1"),
    "palette.bmp": saved(smooth(), "BMP", "P"),
    "palette.gif": saved(smooth(), "GIF", "P"),
    "transparent.gif": saved(smooth(), "GIF", "P", transparency=5),
    "interlaced.gif": saved(smooth(), "GIF", "P", interlace=1),
    "one frame.gif": saved(smooth(), "GIF", "P", save_all=True, append_images=[Image.new("P", (45, 30))]),
}  # fmt: skip
JPEGS = {
    "rgb.jpg": saved(smooth(), "JPEG", quality=95),
    "full.jpg": saved(smooth(), "JPEG", quality=95, subsampling=0),
    "grey.jpg": saved(smooth(), "JPEG", "L", quality=95),
    "cmyk.jpg": saved(smooth(), "JPEG", "CMYK", quality=95),
    "progressive.jpg": saved(smooth(), "JPEG", quality=95, progressive=True),
    "progressive grey.jpg": saved(smooth(), "JPEG", "L", quality=95, progressive=True),
    "profile.jpg": saved(smooth(), "JPEG", quality=95, icc_profile=b"a profile" * 50),
    "restarts.jpg": saved(smooth(), "JPEG", quality=95, restart_marker_blocks=2),
}


@pytest.mark.parametrize("name", PICTURES)
def test_lossless_files_have_the_pixels_of_pil(name: str, decoder: Decoder) -> None:
    assert distance(decoder.pixels(PICTURES[name]), as_pil(PICTURES[name])) == 0


@pytest.mark.parametrize("name", JPEGS)
def test_jpeg_files_have_nearly_the_pixels_of_pil(name: str, decoder: Decoder) -> None:
    """Decoders round differently, and enlarge colours differently."""
    assert distance(decoder.pixels(JPEGS[name]), as_pil(JPEGS[name])) <= 6


def test_16_bits_become_8(decoder: Decoder) -> None:
    width, height, generator = 9, 5, np.random.default_rng(0)
    for colour, channels in {0: 1, 2: 3, 4: 2, 6: 4}.items():
        values = generator.integers(0, 1 << 16, (height, width, channels), np.uint16)
        rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
        pixels = decoder.pixels(png(rows, width, height, 16, colour))
        eight = (values >> 8).astype(int)
        if channels in (2, 4):
            alpha = eight[..., -1:]
            eight = (eight[..., :-1] * alpha + 255 * (255 - alpha) + 127) // 255
        assert (pixels == np.broadcast_to(eight, pixels.shape)).all()


def test_interlaced_png(decoder: Decoder) -> None:
    pixels, rows = smooth(19, 13), b""
    for x, y, right, down in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)):
        rows += b"".join(b"\0" + row.tobytes() for row in pixels[y::down, x::right])
    rows += b"".join(b"\0" + row.tobytes() for row in pixels[1::2])
    assert (decoder.pixels(png(rows, 19, 13, 8, 2, interlaced=True)) == pixels).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_the_orientation_flag_is_obeyed(kind: str, decoder: Decoder) -> None:
    for orientation in range(10):
        exif = Image.Exif()
        exif[0x0112] = orientation
        content = saved(smooth(), kind, exif=exif.tobytes())
        assert distance(decoder.pixels(content), as_pil(content)) <= (6 if kind == "JPEG" else 0)
    exif[0x0112] = 6
    turned = decoder.pixels(saved(smooth(), kind, exif=exif.tobytes()))
    assert turned.shape == (45, 30, 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP"])
def test_one_pixel(kind: str, decoder: Decoder) -> None:
    content = saved(np.full((1, 1, 3), 200, np.uint8), kind)
    assert distance(decoder.pixels(content), np.full((1, 1, 3), 200, np.uint8)) <= 2
    for width, height in ((1, 300), (300, 1)):
        assert decoder.pixels(saved(smooth(width, height), kind)).shape == (height, width, 3)


# ---- Files that are no pictures, or more than that


@pytest.mark.parametrize("name", [name for name in (*PICTURES, *JPEGS) if name != "gamma.png"])
def test_a_cut_file_is_an_error(name: str, decoder: Decoder) -> None:
    content = {**PICTURES, **JPEGS}[name]
    if name == "one frame.gif":
        content = content[: content.rindex(b"\x21\xf9")]  # the second frame is not read
    last = {"png": 12, "gif": 2, "bmp": 3, "jpg": 2}[
        name[-3:]
    ]  # what a decoder need not read: checksums, marks of the end
    cuts = [content[:size] for size in range(0, len(content) - last, max(1, len(content) // 60))]
    for cut, read in zip(cuts, decoder.many(cuts), strict=True):
        assert isinstance(read, str), f"{len(cut)} of {len(content)} bytes"


@pytest.mark.parametrize(
    ("kind", "expected"), [("WEBP", "a WebP file"), ("TIFF", "a TIFF file"), ("AVIF", "an AVIF"), ("PDF", "a PDF file")]
)
def test_other_kinds_are_named(kind: str, expected: str, decoder: Decoder) -> None:
    error = decoder.error(saved(smooth(), kind))
    assert expected in error and "PNG, JPEG, GIF and BMP files are read" in error


@pytest.mark.parametrize("kind", ["PSD", "HDR", "PNM", "TGA", "PIC"])
def test_kinds_that_stb_could_read_are_off(kind: str, decoder: Decoder) -> None:
    beginnings = {
        "PSD": b"8BPS\0\1" + bytes(6),
        "HDR": b"#?RADIANCE\n",
        "PNM": b"P6\n2 2\n255\n",
        "PIC": b"\x53\x80\xf6\x34",
    }
    content = beginnings.get(kind, bytes([0, 0, 2, *bytes(9), 2, 0, 2, 0, 24, 0])) + bytes(300)
    assert "is not a picture" in decoder.error(content)


def test_too_many_pixels(decoder: Decoder) -> None:
    assert "9000 x 8000 pixels" in decoder.error(png(b"", 9000, 8000, 8, 0))
    large = bytearray(saved(smooth(), "JPEG"))
    at = large.index(b"\xff\xc0")
    large[at + 5 : at + 9] = struct.pack(">HH", 65000, 65000)
    assert "65000 x 65000 pixels" in decoder.error(bytes(large))
    gif = bytearray(saved(smooth(), "GIF"))
    gif[6:10] = struct.pack("<HH", 65535, 65535)
    assert "pixels" in decoder.error(bytes(gif))
    bmp = bytearray(saved(smooth(), "BMP"))
    bmp[18:26] = struct.pack("<ii", 1 << 30, 1 << 30)
    decoder.error(bytes(bmp))
    assert decoder.memory < 64


def test_a_small_file_cannot_ask_for_much_memory(decoder: Decoder) -> None:
    """A PNG file of one pixel, with data for 256 MiB; and a palette of many colours for nothing."""
    assert isinstance(decoder.many([png(bytes(1 << 28), 1, 1, 8, 0)])[0], str | np.ndarray)
    assert decoder.memory < 64
    noise = random.Random(0).randbytes(1 << 22)
    for name in ("rgb.png", "rgb.bmp", "palette.gif"):
        decoder.many([PICTURES[name] + noise])
        assert decoder.memory < 64


def test_the_largest_picture(decoder: Decoder) -> None:
    """What decoding takes for each pixel is bounded."""
    content = png(bytes(8001 * 8000), 8000, 8000, 8, 0)
    assert decoder.pixels(content).shape == (8000, 8000, 3)
    assert decoder.memory < 1400


def test_a_picture_in_very_many_scans(decoder: Decoder) -> None:
    """Of a progressive JPEG file, each scan costs time for all pixels, in very few bytes."""
    image = Image.fromarray(np.zeros((4000, 4000), np.uint8))
    file = io.BytesIO()
    image.save(file, "JPEG", progressive=True)
    content = file.getvalue()
    starts = [i for i in range(len(content)) if content[i : i + 2] == b"\xff\xda"]
    last = content[starts[-1] : content.rindex(b"\xff\xd9")]
    assert "scans" in decoder.error(content[: starts[-1]] + last * 2000 + b"\xff\xd9")
    assert decoder.pixels(content[: starts[-1]] + last * 30 + b"\xff\xd9").shape == (4000, 4000, 3)
