"""Whether drafts pay for models whose recurrent state is rolled back by a checkpoint: a copy of it before the drafts and,
after a rejection, another copy and accepted tokens read again.

python bench/checkpoints.py [--threads 2] [--rounds 5] [--tokens 64] [--folder FOLDER] [--models mamba mamba2 rwkv7]

Makes models of the sizes of Mamba 370M, Mamba 2 370M and RWKV 7 0.4B once (Q8_0, random, all layers but the first alike) and
a small draft. Prints the table of bench/mixture.py for each, which says what the two drafts are.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

from mixture import print_speeds

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import SSM, Shape, deepened, make

LAYERS = {"mamba": 48, "mamba2": 48, "rwkv7": 24}
SSM |= {"state_size": 128, "time_step_rank": 32, "group_count": 1}  # of Mamba 2


def target(name: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f"{name}-q8_0.gguf"
    if not path.exists():
        shape = Shape(width=1024, ffn=4096, context=2048)
        model = deepened(make(name, shape=shape), LAYERS[name])
        model.write(path.with_suffix(".part"), GgmlType.Q8_0).rename(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    parser.add_argument("--models", nargs="+", choices=list(LAYERS), default=list(LAYERS))
    arguments = parser.parse_args()
    shape = Shape(width=256, layers=4, context=2048, ffn=512)
    draft = make("qwen3", 3, shape=shape).write(arguments.folder / "checkpoints-draft.gguf")
    for name in arguments.models:
        print(f"\n{name}\n")
        drafts: dict[str, pathlib.Path | str] = {"a draft never accepted": draft, "copies of the text": "suffix"}
        print_speeds(target(name, arguments.folder), drafts, arguments.threads, arguments.rounds, arguments.tokens)


if __name__ == "__main__":
    main()
