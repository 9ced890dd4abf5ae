"""The Python examples of the README and the docs run, and the README's prints the output shown there."""

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import shlex
import subprocess

import pytest
from tests import figures
from tests.server.running import serving

import specdec_native as sd

ROOT = pathlib.Path(__file__).parents[1]
README = ROOT / "README.md"
SERVER = "http://127.0.0.1:8080"  # in examples: one that the test starts
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
TOP_FOLDERS = "bench|cmake|cpp|docs|models|python|requirements|tests|third_party"
NAMED_PATH = re.compile(rf"`((?:{TOP_FOLDERS})/[^\s`]*)`")
NAME_IN_PATH = re.compile(rf"`(\w+)`\s+(?:in|of)\s+`((?:{TOP_FOLDERS})/[^\s`]*)`")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: pathlib.Path) -> list[tuple[str, str]]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))


def examples() -> list[tuple[str, str]]:
    found = []
    for path in PAGES:
        for i, (language, code) in enumerate(blocks(path)):
            if language == "python" and '"target.gguf"' not in code:
                found.append((f"{path.name}[{i}]", code))
    assert len(found) >= 3
    return found


@pytest.mark.parametrize(("name", "code"), examples(), ids=lambda value: value if "[" in value else "")
def test_examples_run(name: str, code: str, specdec: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        if SERVER in code:
            code = code.replace(SERVER, stack.enter_context(serving(specdec)).url)
        exec(compile(code, name, "exec"), {"__name__": "example"})


def test_the_readmes_commands_run(specdec: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In a folder with the files that they name. Servers are started by the test above; no network, no other machine."""
    for name, model in (("target", "target"), ("draft", "draft"), ("target-f16", "target")):
        (tmp_path / f"{name}.gguf").symlink_to(ROOT / "models" / f"stdlib-{model}-f16.gguf")
    (tmp_path / "prompt.txt").write_text("import os\n")
    (tmp_path / "in.jsonl").write_text('{"prompt": "import os"}\n')
    commands = [line for _, code in blocks(README) for line in code.splitlines() if line.startswith("specdec ")]
    servers = [line for line in commands if line.startswith("specdec serve")]
    elsewhere = [line for line in commands if " -hf " in line or "--rpc" in line]
    assert len(servers) == 2 and len(elsewhere) == 2 and len(commands) >= 12
    for line in commands:
        if line in servers or line in elsewhere:
            continue
        command = [specdec, *shlex.split(line, comments=True)[1:]]
        found = subprocess.run(command, input="Hello", cwd=tmp_path, capture_output=True, text=True, timeout=300)
        if "--plot" in command and importlib.util.find_spec("matplotlib") is None:
            assert found.returncode == 1 and 'pip install "specdec_native[plot]"' in found.stderr
            continue
        assert found.returncode == 0, f"{line}: {found.stderr}"
        if "--output" not in command:
            assert found.stdout, line
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["finish_reason"]


def test_the_readmes_example_prints_what_it_says() -> None:
    readme = blocks(ROOT / "README.md")
    at = next(i for i, (language, _) in enumerate(readme) if language == "python")
    expected = next(code for language, code in readme[at:] if language == "text")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(readme[at][1], "README.md", "exec"), {"__name__": "example"})
    assert output.getvalue().strip() == expected.strip()


def test_every_page_is_in_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r": ([\w-]+\.md)$", text, re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in sd.__all__ if not re.search(rf"\b{name}\b", text) and name != "__version__"] == []


def test_the_table_of_figures_is_up_to_date() -> None:
    """Otherwise: python tests/figures.py."""
    assert figures.page_with_table() == figures.PAGE.read_text(encoding="utf-8")


def test_links_lead_to_files_that_exist() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_paths_in_the_text_exist() -> None:
    """Such as `cpp/base/isa.h`: documentation goes stale first where files move."""
    found = [(page.name, path) for page in PAGES for path in NAMED_PATH.findall(page.read_text(encoding="utf-8"))]
    assert len(found) > 60
    missing = [f"{page}: {path}" for page, path in found if not (ROOT / path).exists()]
    assert not missing


def test_names_in_the_text_stand_in_their_files() -> None:
    """Such as "`isas` of `cpp/base/isa.cpp`"."""
    found = [(page.name, *match) for page in PAGES for match in NAME_IN_PATH.findall(page.read_text(encoding="utf-8"))]
    assert len(found) > 20
    for page, name, path in found:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), f"{page}: {name} of {path}"
