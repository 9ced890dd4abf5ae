"""What a release holds besides its wheels: the source package, the bill of materials, checksums of all; then twine's
check.

python release/release.py [FOLDER]     `make release`: completes the folder of wheels, by default dist
    --url https://...                  also Homebrew's formula of the programs, which will be downloaded from there
python release/release.py --cut 0.2.0  before: gives the project this version, and the changelog a section of it
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import re
import subprocess
import sys

import sbom

ROOT = pathlib.Path(__file__).parents[1]
SUMS = "SHA256SUMS"


def cut(project: str, changelog: str, version: str, date: datetime.date) -> tuple[str, str]:
    """Texts of pyproject.toml and CHANGELOG.md for a new version: what was unreleased is the version's."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version} is no version: three numbers with dots, for example 0.2.0")
    if f"\n## {version} " in changelog:
        raise ValueError(f"CHANGELOG.md has a section {version} already: take the next number")
    project, versions = re.subn(r'^version = ".*"$', f'version = "{version}"', project, flags=re.MULTILINE)
    changelog, sections = re.subn(
        r"^## Unreleased$", f"## Unreleased\n\n## {version} ({date})", changelog, flags=re.MULTILINE
    )
    if versions != 1 or sections != 1:
        raise ValueError('pyproject.toml must have one line version = "...", and CHANGELOG.md one "## Unreleased"')
    return project, changelog


def make_sdist(folder: pathlib.Path) -> pathlib.Path:
    from scikit_build_core.build import build_sdist

    before = pathlib.Path.cwd()
    os.chdir(ROOT)  # the build backend's interface has no other way to name the project
    try:
        return folder / build_sdist(str(folder.resolve()))
    finally:
        os.chdir(before)


def formula(folder: pathlib.Path, version: str, url: str) -> str:
    """The text of Homebrew's formula for the archives in a folder."""
    values = {"url": url, "version": version}
    text = (
        (ROOT / "release" / "specdec.rb").read_text(encoding="utf-8").split("\n", 1)[1]
    )  # the first line is about the template
    for platform in re.findall(r"@(m\w+)@", text):
        archive = folder / f"specdec-{version}-{platform}.tar.gz"
        if not archive.exists():
            raise ValueError(f"{archive} is missing, which Homebrew's formula names: make wheels PLATFORMS={platform}")
        values[platform] = hashlib.sha256(archive.read_bytes()).hexdigest()
    return re.sub(r"@(\w+)@", lambda match: values[match.group(1)], text)


def write_checksums(folder: pathlib.Path) -> None:
    """SHA256SUMS, which `sha256sum --check` reads."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != SUMS]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Completes a release.")
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=ROOT / "dist")
    parser.add_argument("--url", help="the folder on the web where the results will be; writes specdec.rb, too")
    parser.add_argument("--cut", metavar="VERSION", help="only change the version and the changelog")
    arguments = parser.parse_args()
    if arguments.cut:
        files = [ROOT / "pyproject.toml", ROOT / "CHANGELOG.md"]
        texts = [file.read_text(encoding="utf-8") for file in files]
        for file, text in zip(files, cut(texts[0], texts[1], arguments.cut, datetime.date.today()), strict=True):
            file.write_text(text, encoding="utf-8")
        return
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    make_sdist(folder)
    sbom.write(folder / f"specdec_native-{sbom.project_version()}.cdx.json")
    if arguments.url:
        text = formula(folder, sbom.project_version(), arguments.url.rstrip("/"))
        (folder / "specdec.rb").write_text(text, encoding="utf-8")
    # The archives of programs are no packages: release/wheels.py calls them specdec-...
    packages = [
        str(path) for path in sorted(folder.glob("specdec_native-*")) if path.name.endswith((".whl", ".tar.gz"))
    ]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *packages], check=True)
    write_checksums(folder)
    print((folder / SUMS).read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(str(error))
