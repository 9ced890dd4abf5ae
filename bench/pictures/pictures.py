"""How long a picture takes: from the file to its rows, from the rows into the target's cache, and until the first token
with a draft and without, next to llama-mtmd-cli.

python -m bench.pictures.pictures [--encoders siglip clip] [--rounds 5]

The target and the draft are the real pair (bench/common/real_models.py); encoders have real sizes and random weights,
made on the spot. Programs alternate within a round; each round has a new picture. llama-mtmd-cli is that of the pinned
source with its own options (cmake --preset default -DSPECDEC_PEERS=ON, then build).
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
    return Projector(kind, encoder, {"projection_dim": width, **keys}, tensors).write(folder / f"mmproj-{name}.gguf")


def first_token(gen: Generator, parts: list[dict[str, Any]]) -> float:
    begin = time.perf_counter()
    gen.chat([{"role": "user", "content": parts}], max_tokens=1, temperature=0)
    return time.perf_counter() - begin


def ours(gen: Generator, picture: pathlib.Path, round_: int) -> tuple[float, float]:
    """Until the first token: with a new picture, then with its rows at hand but behind another text."""
    image, question = {"type": "image", "image": str(picture)}, {"type": "text", "text": QUESTION}
    whole = first_token(gen, [image, question])
    return whole, first_token(gen, [{"type": "text", "text": f"{round_}"}, image, question])


def llama(program: pathlib.Path, target: pathlib.Path, projector: pathlib.Path, picture: pathlib.Path) -> Any:
    """Encoding and reading, as it logs them."""
    if not program.exists():
        raise Unavailable(f"{program} is missing: cmake --preset default -DSPECDEC_PEERS=ON, then build")
    options = ["-p", QUESTION, "-n", 1, "--temp", 0, "-t", 2, "-c", 2048]
    out = output_of(program, "-m", target, "--mmproj", projector, "--image", picture, *options)
    return tuple(
        sum(int(ms) for ms in re.findall(rf"{what} in (\d+) ms", out)) / 1e3
        for what in ("slice encoded", r"image decoded \(batch \d+/\d+\)")
    )


def measure(arguments: argparse.Namespace, name: str, folder: pathlib.Path) -> Seconds:
    projector = make_projector(name, arguments.target, folder)
    options: dict[str, Any] = {"mmproj": projector, "n_ctx": 2048, "n_threads": 2, "suffix": False, "n_gpu_layers": 0}
    plain = Generator(arguments.target, num_draft_tokens=0, **options)
    drafting = Generator(arguments.target, arguments.draft, **options)
    seconds: Seconds = {}
    for round_ in range(arguments.rounds + 1):  # the first one loads
        picture = folder / f"{round_}.png"
        Image.fromarray(random_picture(640, 480, round_)).save(picture)
        whole, read = ours(plain, picture, round_)
        with_draft, _ = ours(drafting, picture, round_)
        found = {"ours": whole - read, "first": whole, "draft": with_draft}
        try:
            found["llama"], _ = llama(arguments.llama / "llama-mtmd-cli", arguments.target, projector, picture)
        except Unavailable as reason:
            if round_ == 0:
                print(f"left out: {reason}")
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
