"""Fetch the pinned llama.cpp: python fetch.py CACHE_FOLDER -> prints the unpacked source folder.

llama.cpp is taken from the source distribution of llama-cpp-python (PyPI), which carries a plain copy of it. The archive
is checked against PIN below, unpacked once into CACHE_FOLDER and prepared (prepare.py).
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import prepare

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"  # llama.cpp 0c1e57098 of 2026-10-01, ggml 0.25.3
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
        sys.exit(f"{archive.name}: sha256 is {digest}, expected {SHA256}: refusing to build it")
    return archive


def unpack(archive: pathlib.Path, destination: pathlib.Path) -> None:
    """Only regular files below PREFIX, no path may leave the destination."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix(PREFIX)
            wanted = name in FILES or name.split("/", 1)[0] in FOLDERS
            if not member.isfile() or name == member.name or not wanted or ".." in pathlib.PurePosixPath(name).parts:
                continue
            path = destination / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None
            with content, open(path, "wb") as out:
                shutil.copyfileobj(content, out)


def main() -> None:
    cache = pathlib.Path(sys.argv[1]).resolve()
    source = cache / f"llama.cpp-{SHA256[:12]}-{prepare.fingerprint()}"
    if not source.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            fresh = pathlib.Path(temporary) / "source"
            unpack(download(pathlib.Path(temporary)), fresh)
            prepare.prepare(fresh)
            fresh.rename(source)  # appears whole or not at all
    print(source)


if __name__ == "__main__":
    main()
