"""Whether drafts pay for models whose recurrent state is rolled back by a checkpoint: a copy of it before the drafts
and, after a rejection, another copy and accepted tokens read again.

python -m bench.recurrent.checkpoints [--threads 2] [--rounds 5] [--tokens 64] [--folder FOLDER] [--models mamba
mamba2 rwkv7]

Makes models of the sizes of Mamba 370M, Mamba 2 370M and RWKV 7 0.4B once (Q8_0, random, all layers but the first
alike) and a small draft. Prints the table of bench/common/random_models.py for each.
"""

from __future__ import annotations

from bench.common.random_models import model_file, parser, print_speeds
from tests.models.tiny_models import SSM, Shape

LAYERS = {"mamba": 48, "mamba2": 48, "rwkv7": 24}
SSM |= {"state_size": 128, "time_step_rank": 32, "group_count": 1}  # of Mamba 2


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--models", nargs="+", choices=list(LAYERS), default=list(LAYERS))
    options = arguments.parse_args()
    for name in options.models:
        print(f"\n{name}\n")
        shape = Shape(width=1024, ffn=4096, context=2048, layers=LAYERS[name])
        print_speeds(model_file(options.folder / f"{name}-q8_0.gguf", name, shape), options)


if __name__ == "__main__":
    main()
