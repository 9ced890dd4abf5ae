"""Fetches and patches llama.cpp: python fetch.py CACHE_FOLDER [CHECKOUT] -> prints the folder of the patched source.

The pinned one is taken from the source distribution of llama-cpp-python (PyPI), which carries a plain copy of it. The archive
is checked against SHA256 below. A checkout of the user's is copied, never changed. Either is put into CACHE_FOLDER once, with
our patches applied (patches.py), in a folder named after its content and theirs.
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import patches

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
COMMIT = "0c1e57098 of 2026-10-01"  # of llama.cpp, ggml 0.25.3
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PREFIX = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"
# What the engine, the benchmarks against llama.cpp's own tools and the vendored headers need; the rest stays packed.
FOLDERS = ("cmake", "common", "examples", "ggml", "include", "src", "tools", "vendor")
FILES = ("CMakeLists.txt", "LICENSE")


def download(folder: pathlib.Path) -> pathlib.Path:
    """The verified source archive, downloaded by name with pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    if subprocess.run(command).returncode != 0:
        sys.exit(
            f"could not download {PACKAGE}=={VERSION}, which carries llama.cpp. Check the network (or pip's index settings), "
            "or give your own checkout with -DSPECDEC_LLAMA_CPP_DIR=..."
        )
    (archive,) = folder.glob("*.tar.gz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        sys.exit(f"{archive.name}: sha256 is {digest}, expected {SHA256}: the download is not used")
    return archive


def unpack(
    archive: pathlib.Path, destination: pathlib.Path, folders: tuple[str, ...] = FOLDERS, files: tuple[str, ...] = FILES
) -> None:
    """Only regular files below PREFIX, no path may leave the destination."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix(PREFIX)
            wanted = name in files or name.startswith(tuple(f"{folder}/" for folder in folders))
            if not member.isfile() or name == member.name or not wanted or ".." in pathlib.PurePosixPath(name).parts:
                continue
            path = destination / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None
            with content, open(path, "wb") as out:
                shutil.copyfileobj(content, out)


def files_of(checkout: pathlib.Path) -> list[pathlib.Path]:
    """The files copied from a user's checkout, relative to it."""
    if not (checkout / "ggml" / "CMakeLists.txt").is_file():
        sys.exit(f"{checkout} is not a llama.cpp checkout: it has no ggml/CMakeLists.txt")
    found = [path for folder in FOLDERS for path in (checkout / folder).rglob("*")] + [checkout / name for name in FILES]
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
    source = cache / f"llama.cpp-{origin}-{patches.fingerprint()}"
    if not source.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            fresh = pathlib.Path(temporary) / "source"
            if checkout:
                copy(checkout, fresh)
            else:
                unpack(download(pathlib.Path(temporary)), fresh)
            patches.apply(fresh)
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
            f"our patches do not fit {where}: {error}.\nThey are for {pinned}: give a checkout near that commit, or adapt "
            f"{patches.FOLDER}"
        )


if __name__ == "__main__":
    main()
