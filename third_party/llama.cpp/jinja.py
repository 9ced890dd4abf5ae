"""Parts of llama.cpp's common/, for our own build: python jinja.py SOURCE FOLDER -> FOLDER/common/...

The Jinja engine, patched, and what parses chat outputs. SOURCE is llama.cpp's folder (fetch.py). They are compiled with our own
code, so the patches in patches/jinja can change without building llama.cpp again. Files that are up to date are not touched.
"""

import pathlib
import shutil
import sys
import tempfile

import patches

JINJA = ("common/jinja/*.h", "common/jinja/*.cpp", "common/json.*", "common/unicode.*")
CHAT = ("common/chat*.*", "common/parsers/*.*", "common/peg-parser.*", "common/json-schema*.*", "common/trie.*")
FILES = (*JINJA, *CHAT, "common/common.h", "common/log.h")


def prepare(source: pathlib.Path, folder: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary)
        for path in (path for pattern in FILES for path in source.glob(pattern)):
            copy = fresh / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        patches.apply(fresh, patches.FOLDER / "jinja")
        for path in fresh.rglob("*.*"):
            old = folder / path.relative_to(fresh)
            if not old.is_file() or old.read_bytes() != path.read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, old)


if __name__ == "__main__":
    try:
        prepare(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    except patches.PatchError as error:
        sys.exit(f"our patches of common/jinja do not fit {sys.argv[1]}: {error}")
