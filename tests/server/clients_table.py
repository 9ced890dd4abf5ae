"""The table client -> works: `make clients-check` runs this.

Every client of tests/server/clients whose docstring says what it requires gets an environment of its own
(build/clients/NAME, made once) and runs against one server with the bundled pair. A script that ends without an error
works. Prints the rows of the table in docs/server.md.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

from tests.server.running import serving

ROOT = pathlib.Path(__file__).parents[2]
CLIENTS = pathlib.Path(__file__).parent / "clients"
ABOUT = re.compile(r"requires: (?P<packages>.*)\nover: (?P<api>.*)\nchecks: (?P<what>.*)")


class Client(NamedTuple):
    script: pathlib.Path
    packages: list[str]
    api: str
    what: str

    @property
    def name(self) -> str:
        return self.script.stem.removesuffix("_client")

    def row(self, works: bool) -> str:
        package, version = re.split(r"(?:\[.*\])?==", self.packages[0])
        return f"| {package} {version} | {self.api} | {self.what} | {'yes' if works else 'no'} |"


def clients() -> list[Client]:
    found = []
    for path in sorted(CLIENTS.glob("*_client.py")):
        if about := ABOUT.fullmatch(ast.get_docstring(ast.parse(path.read_text())) or ""):
            found.append(Client(path, about["packages"].split(), about["api"], about["what"]))
    return found


def environment(name: str, packages: list[str]) -> pathlib.Path:
    folder = ROOT / "build" / "clients" / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists() or ready.read_text().split() != packages:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install: list[str | pathlib.Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *packages,
        ]
        subprocess.run(install, check=True)
        ready.write_text(" ".join(packages))
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these of the clients")
    arguments = parser.parse_args()
    failed = []
    with serving(ROOT / "build" / "default" / "specdec", "-np", "2", "-c", "4096") as server:
        for client in clients():
            if arguments.only and client.name not in arguments.only:
                continue
            command: list[str | pathlib.Path] = [environment(client.name, client.packages), client.script, server.url]
            run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            print(client.row(run.returncode == 0), flush=True)
            if run.returncode != 0:
                failed.append(client.name)
                print(run.stdout[-1000:] + run.stderr[-3000:], file=sys.stderr)
    if failed:
        sys.exit(f"clients that do not work: {', '.join(failed)}")


if __name__ == "__main__":
    main()
