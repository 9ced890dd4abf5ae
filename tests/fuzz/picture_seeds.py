"""What fuzz_pictures begins with: small picture files of every kind that is read."""

from __future__ import annotations

import pathlib

from PIL import Image


def write_pictures(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    grey = Image.linear_gradient("L").resize((19, 13))
    colours = Image.merge("RGB", (grey, grey.rotate(90), Image.radial_gradient("L").resize((19, 13))))
    transparent = colours.copy()
    transparent.putalpha(grey)
    exif = Image.Exif()
    exif[0x0112] = 6
    for mode in ("1", "L", "P", "RGB"):
        image = colours.convert(mode)
        for kind in ("png", "bmp", "gif"):
            image.save(folder / f"{mode}.{kind}")
    for mode in ("LA", "RGBA"):
        transparent.convert(mode).save(folder / f"{mode}.png", exif=exif)
    colours.convert("P").save(folder / "transparent.gif", transparency=3)
    colours.convert("P").save(folder / "transparent.png", transparency=3)
    grey.convert("I;16").save(folder / "16.png")
    transparent.save(folder / "alpha.bmp")
    colours.save(folder / "frames.gif", save_all=True, append_images=[grey, transparent])
    for mode in ("L", "RGB", "CMYK"):
        for options in ({}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_blocks": 1}):
            name = f"{mode}-{'-'.join(options)}.jpg"
            colours.convert(mode).save(folder / name, exif=exif, **options)
