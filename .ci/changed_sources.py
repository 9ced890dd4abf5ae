"""The C++ files that a change touches: python .ci/changed_sources.py COMPILE_COMMANDS.JSON [BASE] -> prints them, one a
line.

Prints the compiled files that differ from BASE or include a header that differs, directly or not, or one of llama.cpp's
that a patch that differs names. BASE is a commit whose files all passed `make tidy`: the last tag, or before the first
one the commit in .ci/tidy-base. Prints all files if BASE is not in this history, or if clang-tidy's version, its
settings or anything else of third_party has changed since, but the modules for devices, which are not checked.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

SETTINGS = ".clang-tidy"
FOR_ALL = (SETTINGS, "third_party/")  # what changes the result for every file,
PATCHES = "third_party/llama.cpp/patches/"  # except these,
MODULES = "third_party/llama.cpp/device_module/"  # and these
PATCHED = re.compile(r"^\+\+\+ b/(\S+\.h)$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
NO_SETTING = re.compile(r"#.*|\s+")  # comments and spaces
CLANG_TIDY = re.compile(r"^[-+]clang-tidy==", re.MULTILINE)


def git(root: pathlib.Path, *arguments: str) -> str | None:
    """What git prints, or None if it fails."""
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def base_of(root: pathlib.Path) -> str | None:
    tag = git(root, "describe", "--tags", "--abbrev=0")
    if tag:
        return tag
    recorded = root / ".ci" / "tidy-base"
    return recorded.read_text(encoding="utf-8").strip() if recorded.exists() else None


def changed_since(root: pathlib.Path, base: str) -> set[str] | None:
    """Paths that differ from `base`, also those not committed, and headers of llama.cpp that patches among them change;
    None if that is not an ancestor or everything may differ."""
    if git(root, "merge-base", "--is-ancestor", base, "HEAD") is None:
        return None
    differing = git(root, "diff", "--name-only", base)
    new = git(root, "ls-files", "--others", "--exclude-standard")
    versions = git(root, "diff", base, "--", "requirements")
    if differing is None or new is None or versions is None:
        return None
    changed = set((differing + "\n" + new).split())
    for_all = {path for path in changed if path.startswith(FOR_ALL) and not path.startswith((PATCHES, MODULES))}
    if SETTINGS in for_all and same_settings(root, base):
        for_all.remove(SETTINGS)
    return None if CLANG_TIDY.search(versions) or for_all else changed | patched_headers(root, base, changed)


def before_and_now(root: pathlib.Path, base: str, path: str) -> tuple[str, str]:
    """What the file says at `base` and in the working tree; "" where it does not exist."""
    now = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
    return git(root, "show", f"{base}:{path}") or "", now


def same_settings(root: pathlib.Path, base: str) -> bool:
    """Whether clang-tidy's settings differ from those at `base` in comments and line breaks alone."""
    before, now = before_and_now(root, base, SETTINGS)
    return NO_SETTING.sub("", before) == NO_SETTING.sub("", now)


def patched_headers(root: pathlib.Path, base: str, changed: set[str]) -> set[str]:
    """The headers that patches among `changed` patch, or did at `base`, by every name that an #include may have for
    them."""
    headers: set[str] = set()
    for path in (path for path in changed if path.startswith(PATCHES)):
        before, now = before_and_now(root, base, path)
        for header in PATCHED.findall(now + before):
            parts = header.split("/")
            headers.update("/".join(parts[i:]) for i in range(len(parts)))
    return headers


def with_includers(root: pathlib.Path, changed: set[str]) -> set[str]:
    """`changed`, and every file of cpp, tests and bench that includes one of them, directly or not."""
    folders = [root / name for name in ("cpp", "tests", "bench")]
    includers: dict[pathlib.Path, set[pathlib.Path]] = {}
    for path in (path for folder in folders for path in folder.rglob("*.*") if path.suffix in (".cpp", ".h")):
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            # As the compiler looks; llama.cpp's headers as if they were in root. More than one place does no harm.
            for folder in (path.parent, *folders, root):
                includers.setdefault((folder / name).resolve(), set()).add(path)
    found = {(root / name).resolve() for name in changed}
    waiting = list(found)
    while waiting:
        new = {path.resolve() for path in includers.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    return {path.relative_to(root.resolve()).as_posix() for path in found}


def main() -> None:
    database = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parents[1]
    compiled = sorted({entry["file"] for entry in json.loads(database.read_text(encoding="utf-8"))})
    base = sys.argv[2] if len(sys.argv) > 2 else base_of(root)
    changed = changed_since(root, base) if base else None
    if changed is not None:
        touched = with_includers(root, changed)
        compiled = [file for file in compiled if pathlib.Path(file).resolve().relative_to(root).as_posix() in touched]
    note = "everything" if changed is None else f"what differs from {base}"
    print(f"clang-tidy: {len(compiled)} files ({note})", file=sys.stderr)
    print("\n".join(compiled))


if __name__ == "__main__":
    main()
