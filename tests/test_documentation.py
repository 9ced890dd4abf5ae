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
OTHER_PAGES = sorted(path for name in ("bench", "models") for path in (ROOT / name).rglob("*.md"))
EVERY_PAGE = [*PAGES, *OTHER_PAGES, ROOT / "CHANGELOG.md"]
TOP_FOLDERS = "bench|cmake|cpp|docs|models|python|requirements|tests|third_party"
NAMED_PATH = re.compile(rf"`((?:{TOP_FOLDERS})/[^\s`]*)`")
NAME_IN_PATH = re.compile(rf"`(\w+)`\s+(?:in|of)\s+`((?:{TOP_FOLDERS})/[^\s`]*)`")
# Models, data and drawings; changes of other people's code; licences, each of whose headings is one line.
NOT_WRAPPED = (".gguf", ".json", ".jsonl", ".svg", ".patch", "THIRD_PARTY_LICENSES")
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
    """In a folder with the files that they name. Servers are started by the test above; no network, no other
    machine."""
    for name, model in (("target", "target"), ("draft", "draft"), ("target-f16", "target")):
        (tmp_path / f"{name}.gguf").symlink_to(ROOT / "models" / f"stdlib-{model}-f16.gguf")
    (tmp_path / "prompt.txt").write_text("import os\n")
    (tmp_path / "in.jsonl").write_text('{"prompt": "import os"}\n')
    lines = [line for _, code in blocks(README) for line in code.splitlines() if line.startswith("specdec ")]
    commands = list(dict.fromkeys(line.split("  #")[0].rstrip() for line in lines))
    servers = [line for line in commands if line.startswith("specdec serve")]
    elsewhere = [line for line in commands if " -hf " in line or "--rpc" in line]
    assert len(servers) == 3 and len(elsewhere) == 2 and len(commands) >= 14
    for line in commands:
        if line in servers or line in elsewhere:
            continue
        command = [specdec, *shlex.split(line)[1:]]
        if command[1] == "bench":
            command += ["--repeat", "1", "-n", "16"]  # seconds instead of minutes
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
    entries = re.findall(r"^(?:::: specdec_native\.|        - )(\w+)$", text, re.MULTILINE)
    assert sorted(entries) == sorted(set(sd.__all__) - {"__version__"})


def test_the_table_of_figures_is_up_to_date() -> None:
    """Otherwise: python tests/figures.py."""
    assert figures.page_with_table() == figures.PAGE.read_text(encoding="utf-8")


def test_the_first_screen_of_the_readme() -> None:
    """25 lines: what it is, a table of three rows, five commands, which draft, for whom, and the platforms."""
    screen = README.read_text(encoding="utf-8").splitlines()[:25]
    table = [line for line in screen if line.startswith("|")]
    commands = screen[screen.index("```sh") + 1 : screen.index("```")]
    points = [line for line in screen if line.startswith("- **")]
    assert len(table) == 5 and len(commands) == 5 and commands[0].startswith("pip install")
    assert [point[4:7] for point in points] == ["Whi", "For", "Not", "Lin", "Win", "mac"]
    assert "make demo" in README.read_text(encoding="utf-8") and "make test" in README.read_text(encoding="utf-8")


def cannot_be_wrapped(name: str, line: str, is_code: bool) -> bool:
    text = line.lstrip()
    if name.endswith(".md"):  # tables, and commands as they were run
        return text.startswith(("|", "![")) or (is_code and name.startswith("bench/") and len(line) <= 200)
    return name.endswith(".pyi") and text.startswith(("def ", "__all__"))  # generated, each in one line


@pytest.mark.quick
def test_lines_are_short() -> None:
    """Of every text file that git knows: at most 120 characters."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    names = [name for name in listed.stdout.split("\0") if (ROOT / name).is_file() and not name.endswith(NOT_WRAPPED)]
    assert len(names) > 1000
    found = []
    for name in names:
        is_code = False
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), 1):
            is_code ^= line.lstrip().startswith("```")
            if len(line) > 120 and not cannot_be_wrapped(name, line, is_code):
                found.append(f"{name}:{number}")
    assert not found, "\n".join(found)


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings_that_exist() -> None:
    for page in EVERY_PAGE:
        for link, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text(encoding="utf-8")):
            target = page.parent / link if link else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {link}#{anchor}"


def test_paths_in_the_text_exist() -> None:
    """Such as `cpp/base/isa.h`: documentation goes stale first where files move."""
    found = [(page.name, path) for page in PAGES for path in NAMED_PATH.findall(page.read_text(encoding="utf-8"))]
    assert len(found) > 60
    missing = [f"{page}: {path}" for page, path in found if not (ROOT / path).exists()]
    assert not missing


def declares(name: str, text: str) -> bool:
    """Whether the text declares or defines the name, in C++, Python, CMake or make; a use of it does not count."""
    word = re.escape(name)
    statement = r"\s*(?:return|throw|else|case|delete|new|goto)\b"
    forms = [
        rf"\b(class|struct|enum class|enum|using|namespace|define|def) {word}\b",
        rf"^(?!{statement})[\w:<>,&* \t]*[\w>&*\]] [*&]?(?:\w+::)*{word}(?:\(|\[|\{{| = |;|,)",
        rf"^\s+(?:\w+, )*{word}(?:, \w+)*,? *(?://.*)?$",  # enumerators and rows of lists
        rf"^\s*{word}(?:: [^=]+)? (?:[:+?]?=) ",
        rf"\b\w*(?:function|macro|set|option|program|executable|library)\((?:{word}|{word.removeprefix('test_')})\b",
        rf'\{{"{word}",',  # the row of a table
    ]
    return any(re.search(form, text, re.MULTILINE) for form in forms)


def test_a_use_is_no_declaration() -> None:
    declared = "struct A {\n  int b = 0;\n  Thing* c(int x);\n};\nconst std::vector<int>& d() {\n"
    declared += "  return e(f);\n  e(f, e);\n}\nG = 1\n"
    assert [name for name in "AbcdefG" if declares(name, declared)] == ["A", "b", "c", "d", "G"]


def test_the_walk_of_a_prompt() -> None:
    """Ten steps, each a function and the file that defines it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| (\d+) \| `([\w:]+)` in `([^`]+)` \| .+ \|$", text, re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, 11))
    for _, function, path in steps:
        code = (ROOT / path).read_text(encoding="utf-8")
        assert declares(function.split("::")[-1], code) and f"{function}(" in code, f"{function} in {path}"


def test_names_in_the_text_are_declared_in_their_files() -> None:
    """Such as "`isas` of `cpp/base/isa.cpp`"."""
    found = [(page.name, *match) for page in PAGES for match in NAME_IN_PATH.findall(page.read_text(encoding="utf-8"))]
    assert len(found) > 20
    wrong = [
        f"{page}: {name} of {path}"
        for page, name, path in found
        if not declares(name, (ROOT / path).read_text("utf-8"))
    ]
    assert not wrong
