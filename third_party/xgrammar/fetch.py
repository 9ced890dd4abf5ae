"""Fetches and patches xgrammar: python fetch.py CACHE_FOLDER [SOURCE] -> prints the folder of the patched source.

The source package is taken from PyPI and checked against SHA256 below; a SOURCE of the user's is copied instead. Only
the C++ core is put into CACHE_FOLDER, with our patches applied (../patches.py), in a folder named after the hashes.
"""

import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import patches
import source_package

PATCHES = pathlib.Path(__file__).parent / "patches"
PACKAGE, VERSION = "xgrammar", "0.2.8"
SHA256 = "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80"
FOLDERS = ("cpp", "include", "3rdparty/picojson", "3rdparty/dlpack/include")
FILES = ("LICENSE", "NOTICE")


def copy(source: pathlib.Path, destination: pathlib.Path) -> None:
    for name in (*FOLDERS, *FILES):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if name in FOLDERS else shutil.copy)(source / name, destination / name)


def prepare(cache: pathlib.Path, given: pathlib.Path | None) -> pathlib.Path:
    """The folder of the patched source; made if it does not exist, and anew from a source of the user's."""
    source = cache / f"xgrammar-{'given' if given else SHA256[:12]}-{patches.fingerprint(PATCHES)}"
    if given or not source.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            folder = pathlib.Path(temporary)
            if given:
                copy(given, folder / "source")
            else:
                remedy = ": check the network, or pip's index settings"
                archive = source_package.download(PACKAGE, VERSION, SHA256, folder, remedy)
                source_package.unpack(archive, folder / "source", f"{PACKAGE}-{VERSION}/", FOLDERS, FILES)
            patches.apply(folder / "source", PATCHES)
            shutil.rmtree(source, ignore_errors=True)
            (folder / "source").rename(source)  # appears whole or not at all
    return source


def main() -> None:
    cache, *sources = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    try:
        print(prepare(cache, sources[0] if sources else None))
    except patches.PatchError as error:
        sys.exit(f"our patches do not fit {sources[0] if sources else f'{PACKAGE} {VERSION}'}: {error}")


if __name__ == "__main__":
    main()
