"""Parts of llama.cpp, copied and patched for our own build: python copies.py SOURCE FOLDER PART.

SOURCE is llama.cpp's folder (fetch.py), PART one of PARTS; files keep their paths under FOLDER. They are compiled with
our own code, so that the patches in patches/PART can change without building llama.cpp again. Files that are up to date
are not touched.
"""

import pathlib
import shutil
import sys
import tempfile

import fetch
import patches

JINJA = ("common/jinja/*.h", "common/jinja/*.cpp", "common/json.*", "common/unicode.*")
CHAT = ("common/chat*.*", "common/parsers/*.*", "common/peg-parser.*", "common/json-schema*.*", "common/trie.*")
PARTS = {
    "jinja": (*JINJA, *CHAT, "common/common.h", "common/log.h"),  # and what parses chat outputs
    "httplib": ("vendor/cpp-httplib/httplib.*",),
    "mtmd": ("tools/mtmd/*.h", "tools/mtmd/*.cpp", "tools/mtmd/debug/*.h", "tools/mtmd/models/*"),
}


def prepare(source: pathlib.Path, folder: pathlib.Path, part: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary)
        for path in (path for pattern in PARTS[part] for path in source.glob(pattern)):
            copy = fresh / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        patches.apply(fresh, fetch.PATCHES / part)
        for path in fresh.rglob("*.*"):
            old = folder / path.relative_to(fresh)
            if not old.is_file() or old.read_bytes() != path.read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, old)


if __name__ == "__main__":
    try:
        prepare(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    except patches.PatchError as error:
        sys.exit(f"our patches of {sys.argv[3]} do not fit {sys.argv[1]}: {error}")
