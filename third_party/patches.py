"""Applies *.patch, our changes to a pinned library, to a folder of its source: python patches.py SOURCE PATCHES.

A strict reader of unified diffs, so that a build needs neither git nor patch: the lines of a hunk must stand exactly
once in the file, wherever; no context line may differ. Each patch begins with its reason, upstream's state and the test
that fails without it. To change one: apply them to a checkout, edit, `git diff`, and keep the text above.
"""

import hashlib
import pathlib
import re
import sys
from typing import NamedTuple

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class PatchError(Exception):
    """A patch cannot be read, or does not apply."""


class Hunk(NamedTuple):
    path: str  # of the file, relative to the source's folder
    before: str  # the lines to replace, with context; empty: the file is new
    after: str


def parse(text: str) -> list[Hunk]:
    """The hunks of a unified diff, in order; text outside them is ignored."""
    hunks, path, lines = [], "", iter(text.split("\n"))
    for line in lines:
        if line.startswith("+++ "):
            path = line[4:].split("\t")[0].removeprefix("b/")
        elif match := HUNK.match(line):
            left = {"-": int(match[1] or 1), "+": int(match[2] or 1)}
            before, after = [], []
            while any(left.values()):
                line = next(lines, "end of file")
                kind = line[:1] or " "  # an empty context line whose blank an editor removed
                if kind not in "-+ ":
                    raise PatchError(f"{path}: {line!r} inside a hunk")
                for side, of_side in (("-", before), ("+", after)):
                    if kind in (side, " "):
                        left[side] -= 1
                        of_side.append(line[1:] + "\n")
            if min(left.values()) < 0:
                raise PatchError(f"{path}: a hunk has more lines than its header says")
            hunks.append(Hunk(path, "".join(before), "".join(after)))
    return hunks


def load(folder: pathlib.Path) -> dict[str, list[Hunk]]:
    """All patches in numerical order: {file name: hunks}."""
    patches = {path.name: parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.patch"))}
    for name, hunks in patches.items():
        if not hunks:
            raise PatchError(f"{name} contains no change")
    return patches


def fingerprint(folder: pathlib.Path) -> str:
    """Short hash of the changes, part of the cache key: editing a change unpacks again, editing its description does
    not."""
    changes = [tuple(hunk) for hunks in load(folder).values() for hunk in hunks]
    return hashlib.sha256(repr(changes).encode()).hexdigest()[:8]


def apply(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Applies every patch in `folder` to the source `root`, in place. PatchError names a change that does not apply."""
    for name, hunks in load(folder).items():
        for number, (relative, before, after) in enumerate(hunks, 1):
            path = root / relative
            # Lines are searched with the newline before them, so that a match begins at the start of a line.
            source = "\n" + path.read_text(encoding="utf-8") if path.is_file() else ""
            found = source.count("\n" + before) if before else int(not source)
            if found != 1:
                applied = bool(after) and "\n" + after in source
                problem = (
                    "is applied already (restore the file if it was patched in place)"
                    if applied
                    else f"does not apply: {'its lines occur ' + str(found) + ' times' if source else 'no such file'}"
                )
                raise PatchError(f"{name}: change {number} of {len(hunks)}, in {relative}, {problem}")
            path.parent.mkdir(parents=True, exist_ok=True)
            patched = source.replace("\n" + before, "\n" + after)[1:] if before else after
            path.write_text(patched, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    try:
        apply(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    except PatchError as error:
        sys.exit(str(error))
