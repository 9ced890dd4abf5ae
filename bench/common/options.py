"""The command line of a benchmark."""

from __future__ import annotations

import argparse
import pathlib

from bench.common.paths import BUILD


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """With a script's docstring as its help, and the folder of the programs that are measured."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=BUILD, help="folder of the programs (build/default)")
    return parser
