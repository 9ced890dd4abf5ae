"""python make_stubs.py FOLDER: writes the type stubs of the extension below FOLDER/specdec_native."""

import pathlib
import shutil
import subprocess
import sys
import tempfile


def main(folder: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pybind11_stubgen", "specdec_native._core", "--output-dir", temporary]
        subprocess.run(command, check=True, capture_output=True)
        destination = folder / "specdec_native" / "_core"
        shutil.rmtree(destination, ignore_errors=True)
        shutil.copytree(pathlib.Path(temporary) / "specdec_native" / "_core", destination)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
