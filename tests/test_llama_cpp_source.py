"""third_party: our patches apply strictly, to copies only."""

import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.quick

FOLDER = pathlib.Path(__file__).parents[1] / "third_party" / "llama.cpp"
sys.path.insert(0, str(FOLDER))

import copies  # noqa: E402
import fetch  # noqa: E402
import patches  # noqa: E402

SOURCE = "one\ntwo\nthree\nfour\nfive\n"
PATCH = """\
Why: because.

--- a/ggml/a.c
+++ b/ggml/a.c
@@ -2,3 +2,4 @@
 two
-three
+3
+3.5
 four
--- /dev/null
+++ b/ggml/new.h
@@ -0,0 +1,1 @@
+new
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with one patch."""
    folder = tmp_path / "patches"
    folder.mkdir()
    (folder / "0001-three.patch").write_text(PATCH)
    return folder


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """A small tree that the patch fits."""
    root = tmp_path / "checkout"
    for name, text in {
        "ggml/a.c": SOURCE,
        "ggml/CMakeLists.txt": "",
        "CMakeLists.txt": "",
        "docs/not-needed": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def contents(root: pathlib.Path) -> dict[pathlib.Path, tuple[bytes, int]]:
    """Every file below `root` and when it was changed."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def test_a_patch_changes_its_lines_and_adds_its_files(checkout: pathlib.Path, folder: pathlib.Path) -> None:
    patches.apply(checkout, folder)
    assert (checkout / "ggml/a.c").read_text() == "one\ntwo\n3\n3.5\nfour\nfive\n"
    assert (checkout / "ggml/new.h").read_text() == "new\n"


def test_lines_may_have_moved(checkout: pathlib.Path, folder: pathlib.Path) -> None:
    (checkout / "ggml/a.c").write_text("zero\n" * 9 + SOURCE)
    patches.apply(checkout, folder)
    assert (checkout / "ggml/a.c").read_text() == "zero\n" * 9 + "one\ntwo\n3\n3.5\nfour\nfive\n"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("one\ntwo\nthree\nFOUR\n", "does not apply: its lines occur 0 times"),  # a context line differs
        ("xtwo\nthree\nfour\n", "0 times"),  # only the end of a line fits
        (SOURCE + SOURCE, "2 times"),
        ("one\ntwo\n3\n3.5\nfour\n", "is applied already"),
        (None, "no such file"),
    ],
)
def test_what_does_not_fit_is_rejected(
    checkout: pathlib.Path, folder: pathlib.Path, source: str | None, problem: str
) -> None:
    path = checkout / "ggml/a.c"
    path.unlink() if source is None else path.write_text(source)
    with pytest.raises(patches.PatchError, match=f"0001-three.patch: change 1 of 2, in ggml/a.c, .*{problem}"):
        patches.apply(checkout, folder)


def test_a_new_file_must_be_new(checkout: pathlib.Path, folder: pathlib.Path) -> None:
    (checkout / "ggml/new.h").write_text("theirs\n")
    with pytest.raises(patches.PatchError, match=r"change 2 of 2, in ggml/new\.h, does not apply"):
        patches.apply(checkout, folder)


@pytest.mark.parametrize(
    "damaged", [PATCH.replace(" four\n", ""), PATCH.replace("@@ -2,3 +2,4 @@", "@@ -2,2 +2,5 @@"), "only words\n"]
)
def test_a_damaged_patch_is_rejected(checkout: pathlib.Path, folder: pathlib.Path, damaged: str) -> None:
    (folder / "0001-three.patch").write_text(damaged)
    before = contents(checkout)
    with pytest.raises(patches.PatchError):
        patches.apply(checkout, folder)
    assert contents(checkout) == before


def test_the_cache_key_is_of_the_changes_not_of_their_reasons(folder: pathlib.Path) -> None:
    key = patches.fingerprint(folder)
    path = folder / "0001-three.patch"
    path.write_text(PATCH.replace("because", "of another reason").replace("@@ -2,3 +2,4 @@", "@@ -7,3 +7,4 @@"))
    assert patches.fingerprint(folder) == key
    path.write_text(PATCH.replace("+3.5", "+3.6"))
    assert patches.fingerprint(folder) != key


def test_a_checkout_is_copied_and_never_changed(
    tmp_path: pathlib.Path, checkout: pathlib.Path, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "PATCHES", folder)
    before = contents(checkout)
    source = fetch.prepare(tmp_path / "cache", checkout)
    assert (source / "ggml/new.h").is_file() and not (source / "docs").exists()
    assert contents(checkout) == before
    assert fetch.prepare(tmp_path / "cache", checkout) == source

    (checkout / "ggml/a.c").write_text(SOURCE + "six\n")
    edited = fetch.prepare(tmp_path / "cache", checkout)
    assert edited != source and (edited / "ggml/a.c").read_text().endswith("six\n")


def test_a_checkout_that_does_not_fit_is_an_error(tmp_path: pathlib.Path, checkout: pathlib.Path) -> None:
    """The real patches on a tree without their files."""
    command = [sys.executable, str(FOLDER / "fetch.py"), str(tmp_path / "cache"), str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    for part in ("0001-mxfp6-types.patch", "ggml/include/ggml.h", fetch.VERSION, fetch.COMMIT):
        assert part in done.stderr, done.stderr
    assert not list((tmp_path / "cache").iterdir())  # nothing half made

    done = subprocess.run([*command[:-1], str(tmp_path)], capture_output=True, text=True)
    assert done.returncode != 0 and "is not a llama.cpp checkout" in done.stderr


XGRAMMAR = FOLDER.parent / "xgrammar" / "patches"


@pytest.mark.parametrize("folder", [fetch.PATCHES, *(fetch.PATCHES / part for part in copies.PARTS), XGRAMMAR])
def test_every_patch_says_why_and_which_test_needs_it(folder: pathlib.Path) -> None:
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    assert paths
    assert [path.name[:5] for path in paths] == [f"{number:04}-" for number in range(1, len(paths) + 1)]
    for path in paths:
        head = path.read_text(encoding="utf-8").split("\n--- ", 1)[0]
        for part in ("Why: ", "Upstream: ", "Fails without it: "):
            assert re.search(f"^{part}", head, re.MULTILINE), (path, part)


def test_the_documentation_lists_every_patch() -> None:
    text = (FOLDER.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    for path in (*fetch.PATCHES.rglob("*.patch"), *XGRAMMAR.glob("*.patch")):
        assert path.name in text, path.name


def test_parts_are_patched_copies(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PATCHES", tmp_path / "patches")
    source, folder = tmp_path / "source", tmp_path / "copies"
    for name, text in {
        "common/jinja/value.h": SOURCE,
        "common/json.cpp": "json\n",
        "common/arg.cpp": "not needed\n",
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (tmp_path / "patches" / "jinja").mkdir(parents=True)
    (tmp_path / "patches" / "jinja" / "0001.patch").write_text(PATCH.replace("ggml/a.c", "common/jinja/value.h"))
    before = contents(source)
    copies.prepare(source, folder, "jinja")
    assert contents(source) == before
    assert (folder / "common/jinja/value.h").read_text() == "one\ntwo\n3\n3.5\nfour\nfive\n"
    assert (folder / "common/json.cpp").is_file() and not (folder / "common/arg.cpp").exists()
    made = contents(folder)
    copies.prepare(source, folder, "jinja")
    assert contents(folder) == made, "what has not changed is not compiled again"
