"""Fetches and patches llama.cpp: python fetch.py CACHE_FOLDER [CHECKOUT] -> prints the folder of the patched source.

The pinned one is taken from the source distribution of llama-cpp-python (PyPI), which carries a plain copy of it. The
archive is checked against SHA256 below. A checkout of the user's is copied, never changed. Either is put into
CACHE_FOLDER once, with our patches applied (../patches.py), in a folder named after its content and theirs.
"""

import hashlib
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import patches
import source_package

PATCHES = pathlib.Path(__file__).parent / "patches"
PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
COMMIT = "0c1e57098 of 2026-10-01"  # of llama.cpp, ggml 0.25.3
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PREFIX = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"
# What the engine, the benchmarks against llama.cpp's own tools and the vendored headers need; the rest stays packed.
FOLDERS = ("cmake", "common", "examples", "ggml", "include", "src", "tools", "vendor")
FILES = ("CMakeLists.txt", "LICENSE")


def download(folder: pathlib.Path) -> pathlib.Path:
    """The verified source archive, downloaded by name with pip."""
    remedy = (
        ", which carries llama.cpp. Check the network (or pip's index settings), "
        "or give your own checkout with -DSPECDEC_LLAMA_CPP_DIR=..."
    )
    return source_package.download(PACKAGE, VERSION, SHA256, folder, remedy)


def unpack(
    archive: pathlib.Path, destination: pathlib.Path, folders: tuple[str, ...] = FOLDERS, files: tuple[str, ...] = FILES
) -> None:
    source_package.unpack(archive, destination, PREFIX, folders, files)


def files_of(checkout: pathlib.Path) -> list[pathlib.Path]:
    """The files copied from a user's checkout, relative to it."""
    if not (checkout / "ggml" / "CMakeLists.txt").is_file():
        sys.exit(f"{checkout} is not a llama.cpp checkout: it has no ggml/CMakeLists.txt")
    found = [path for folder in FOLDERS for path in (checkout / folder).rglob("*")] + [
        checkout / name for name in FILES
    ]
    return sorted(path.relative_to(checkout) for path in found if path.is_file())


def fingerprint(checkout: pathlib.Path) -> str:
    """Short hash of a checkout's files: an edited one is copied, patched and built afresh."""
    digest = hashlib.sha256()
    for name in files_of(checkout):
        content = (checkout / name).read_bytes()
        digest.update(f"{name.as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def copy(checkout: pathlib.Path, destination: pathlib.Path) -> None:
    for name in files_of(checkout):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(checkout / name, destination / name)


def prepare(cache: pathlib.Path, checkout: pathlib.Path | None) -> pathlib.Path:
    """The folder of the patched source; made if it does not exist."""
    origin = f"checkout-{fingerprint(checkout)}" if checkout else SHA256[:12]
    source = cache / f"llama.cpp-{origin}-{patches.fingerprint(PATCHES)}"
    if not source.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            fresh = pathlib.Path(temporary) / "source"
            if checkout:
                copy(checkout, fresh)
            else:
                unpack(download(pathlib.Path(temporary)), fresh)
            patches.apply(fresh, PATCHES)
            fresh.rename(source)  # appears whole or not at all
    return source


def templates(folder: pathlib.Path) -> list[pathlib.Path]:
    """The chat templates that llama.cpp collects, for tests; downloaded into `folder` if it does not exist."""
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            fresh = pathlib.Path(temporary) / "source"
            unpack(download(pathlib.Path(temporary)), fresh, ("models/templates",), ())
            (fresh / "models" / "templates").rename(folder)
    return sorted(folder.glob("*.jinja"))


def main() -> None:
    cache, *checkouts = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    try:
        print(prepare(cache, checkouts[0] if checkouts else None))
    except patches.PatchError as error:
        where = checkouts[0] if checkouts else f"{PACKAGE} {VERSION}"
        pinned = f"llama.cpp {COMMIT} ({PACKAGE} {VERSION})"
        where = checkouts[0] if checkouts else pinned
        sys.exit(
            f"our patches do not fit {where}: {error}.\nThey are for {pinned}: give a checkout near that "
            "commit, or adapt "
            f"{PATCHES}"
        )


if __name__ == "__main__":
    main()
