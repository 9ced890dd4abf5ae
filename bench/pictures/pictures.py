"""How long a picture takes: from the file to its rows, next to llama-mtmd-cli, and until the first token, with a draft
and without.

python -m bench.pictures.pictures [--encoders siglip clip] [--rounds 5]

The target and the draft are the real pair (bench/common/real_models.py); rows are made for the smaller one, which reads
them sooner. Encoders have real sizes and random weights, made on the spot. Programs alternate within a round; each
round has a new picture. llama-mtmd-cli is that of the pinned source with its own options (cmake --preset default
-DSPECDEC_PEERS=ON, then build).
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
from bench.common.engines import Unavailable, output_of
from bench.common.options import parser_of
from bench.common.real_models import FOLDER, PAIR
from PIL import Image
from tests.models.projectors import Encoder, Projector, gemma3, llava, random_picture
from tests.models.tiny_models import Random

from specdec_native import Generator

# Of SmolVLM 500M and of LLaVA 1.5.
ENCODERS: dict[str, tuple[str, Callable[..., Any], Encoder]] = {
    "siglip": ("gemma3", gemma3, Encoder(image=512, patch=16, width=768, heads=12, ffn=3072, layers=12, merge=4)),
    "clip": ("mlp", llava, Encoder(image=336, patch=14, width=1024, heads=16, ffn=4096, layers=23)),
    "tiny": ("mlp", llava, Encoder()),
}
QUESTION = "What is in the picture?"
Seconds = dict[str, list[float]]


def make_projector(name: str, target: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    kind, make, encoder = ENCODERS[name]
    fields = gguf.GGUFReader(target).fields
    architecture = fields["general.architecture"].contents()
    width = int(fields[f"{architecture}.embedding_length"].contents())
    keys, tensors = make(Random(1), encoder, width)
    tensors = {
        key: tensor.astype(np.float16) if tensor.ndim == 2 and "position" not in key else tensor
        for key, tensor in tensors.items()
    }  # as in projectors that people download
    return Projector(kind, encoder, {"projection_dim": width, **keys}, tensors).write(
        folder / f"{target.stem}-{name}.gguf"
    )


def first_token(gen: Generator, parts: list[dict[str, Any]]) -> float:
    begin = time.perf_counter()
    gen.chat([{"role": "user", "content": parts}], max_tokens=1, temperature=0)
    return time.perf_counter() - begin


def first_tokens(gen: Generator, picture: pathlib.Path, round_: int) -> tuple[float, float]:
    """Until the first token: with a new picture, then with its rows at hand but behind another text."""
    image, question = {"type": "image", "image": str(picture)}, {"type": "text", "text": QUESTION}
    whole = first_token(gen, [image, question])
    return whole, first_token(gen, [{"type": "text", "text": f"{round_}"}, image, question])


def llama(program: pathlib.Path, target: pathlib.Path, projector: pathlib.Path, picture: pathlib.Path) -> float:
    """From the line before it reads the picture's file to the rows, as it logs them."""
    if not program.exists():
        raise Unavailable(f"{program} is missing: cmake --preset default -DSPECDEC_PEERS=ON, then build")
    options = ["-p", QUESTION, "-n", 1, "--temp", 0, "-t", 2, "-c", 2048]
    out = output_of(program, "-m", target, "--mmproj", projector, "--image", picture, *options)
    return time_of("batch encoding done", out, last=True) - time_of("main: loading model", out, last=False)


def time_of(words: str, log: str, last: bool) -> float:
    """Lines begin with minutes, seconds, milliseconds and microseconds: 0.03.088.445"""
    times = re.findall(rf"^(\d+)\.(\d+)\.(\d+)\.(\d+) .*{words}", log, re.MULTILINE)
    if not times:
        raise Unavailable(f"no {words!r} in the output")
    minutes, seconds, milliseconds, microseconds = times[-1 if last else 0]
    return 60 * int(minutes) + int(seconds) + int(milliseconds) / 1e3 + int(microseconds) / 1e6


def measure(arguments: argparse.Namespace, name: str, folder: pathlib.Path) -> Seconds:
    options: dict[str, Any] = {"n_ctx": 2048, "n_threads": 2, "suffix": False, "n_gpu_layers": 0}
    projector = make_projector(name, arguments.target, folder)
    small_projector = make_projector(name, arguments.draft, folder)
    plain = Generator(arguments.target, num_draft_tokens=0, mmproj=projector, **options)
    drafting = Generator(arguments.target, arguments.draft, mmproj=projector, **options)
    small = Generator(arguments.draft, num_draft_tokens=0, mmproj=small_projector, **options)
    seconds: Seconds = {}
    for round_ in range(arguments.rounds + 1):  # the first one loads
        picture = folder / f"{round_}.png"
        Image.fromarray(random_picture(640, 480, round_)).save(picture)
        whole, read = first_tokens(small, picture, round_)
        found = {"ours": whole - read}
        try:
            program = arguments.llama / "llama-mtmd-cli"
            found["llama"] = llama(program, arguments.draft, small_projector, picture)
        except Unavailable as reason:
            if round_ == 0:
                print(f"left out: {reason}")
        found["first"], _ = first_tokens(plain, picture, round_)
        found["draft"], _ = first_tokens(drafting, picture, round_)
        if round_ > 0:
            for key, value in found.items():
                seconds.setdefault(key, []).append(value)
    return seconds


def ratio(above: list[float], below: list[float]) -> str:
    return f"{statistics.median(a / b for a, b in zip(above, below, strict=True)):.2f}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--target", type=pathlib.Path, default=FOLDER / f"{PAIR[0]}.gguf")
    parser.add_argument("--draft", type=pathlib.Path, default=FOLDER / f"{PAIR[1]}.gguf")
    parser.add_argument("--encoders", nargs="+", default=["siglip", "clip"], choices=sorted(ENCODERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llama", type=pathlib.Path, help="folder of llama.cpp's programs")
    arguments = parser.parse_args()
    arguments.llama = arguments.llama or arguments.build / "bench" / "peers"
    print("| encoder | to rows, s | llama.cpp | ratio | first token, s | with a draft | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.encoders:
        with tempfile.TemporaryDirectory() as folder:
            seconds = measure(arguments, name, pathlib.Path(folder))
        middle = {key: f"{statistics.median(values):.2f}" for key, values in seconds.items()}
        beside = ratio(seconds["ours"], seconds["llama"]) if "llama" in seconds else "-"
        drafts = ratio(seconds["draft"], seconds["first"])
        cells = [name, middle["ours"], middle.get("llama", "-"), beside, middle["first"], middle["draft"], drafts]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
