"""Fetches xgrammar: python fetch.py CACHE_FOLDER -> prints the folder of its source.

The source package is taken from PyPI and checked against SHA256 below. Only the C++ core is unpacked, into a folder of
CACHE_FOLDER that is named after the hash.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import source_package

PACKAGE, VERSION = "xgrammar", "0.2.8"
SHA256 = "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80"
FOLDERS = ("cpp", "include", "3rdparty/picojson", "3rdparty/dlpack/include")
FILES = ("LICENSE", "NOTICE")


def prepare(cache: pathlib.Path) -> pathlib.Path:
    """The folder of the source; made if it does not exist."""
    source = cache / f"xgrammar-{SHA256[:12]}"
    if not source.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            folder = pathlib.Path(temporary)
            archive = source_package.download(
                PACKAGE, VERSION, SHA256, folder, ": check the network, or pip's index settings"
            )
            source_package.unpack(archive, folder / "source", f"{PACKAGE}-{VERSION}/", FOLDERS, FILES)
            (folder / "source").rename(source)  # appears whole or not at all
    return source


if __name__ == "__main__":
    print(prepare(pathlib.Path(sys.argv[1]).resolve()))
