"""Makes the wide models for speed measurements.

python -m bench.common.wide_models 1.1b-accept0.8 115m-draft [--types f16 mxfp6]

A name is SHAPE-target, SHAPE-draft (the bundled models widened) or SHAPE-acceptRATE (the draft perturbed, so that the
bundled draft and wide drafts are accepted at that rate). Files are NAME-TYPE.gguf in the folder; those that exist are
left alone. Disk for all four types: 7b 31 GB, 1.1b 4.7 GB, 115m 0.6 GB.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from bench.common.options import parser_of
from bench.common.paths import BUNDLED, MADE, ROOT

TYPES = ["f16", "mxfp6", "q8_0", "q6_k"]


class Workshop:
    """A folder of models and the programs that make them."""

    def __init__(self, folder: pathlib.Path, build: pathlib.Path) -> None:
        self.folder, self.build = folder, build

    def make(self, name: str, type: str) -> pathlib.Path:
        out = self.folder / f"{name}-{type}.gguf"
        if out.exists():
            return out
        self.folder.mkdir(parents=True, exist_ok=True)
        print(f"making {out}", file=sys.stderr, flush=True)
        if type == "f16":
            shape, kind = name.split("-", 1)
            options = ["--acceptance", kind.removeprefix("accept")] if kind.startswith("accept") else ["--model", kind]
            run(sys.executable, ROOT / "models" / "widen.py", shape, out, *options)
            return out
        source, part = self.make(name, "f16"), out.with_name(out.name + ".part")
        if type == "mxfp6":
            run(self.build / "specdec", "quantize", "--force", source, part)
        else:
            run(self.build / "bench" / "bench_llama_quantize", source, part, type)
        part.replace(out)
        return out


def bundled_mxfp6(name: str, folder: pathlib.Path, build: pathlib.Path) -> pathlib.Path:
    """The bundled "target" or "draft" in MXFP6."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"stdlib-{name}-mxfp6.gguf"
    run(build / "specdec", "quantize", BUNDLED / f"stdlib-{name}-f16.gguf", out, "--force")
    return out


def run(*command: str | os.PathLike[str]) -> None:
    finished = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if finished.returncode != 0:
        sys.exit(finished.stdout.strip() or f"{command[0]} failed")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    arguments = parser.parse_args()
    workshop = Workshop(arguments.models, arguments.build)
    for name in arguments.names:
        for type in arguments.types:
            print(workshop.make(name, type))


if __name__ == "__main__":
    main()
