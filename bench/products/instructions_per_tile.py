"""Instructions per tile of the MXFP6 kernels, read from the loops of the compiled object files.

Usage: instructions_per_tile.py OBJECT... (matmul_avx512_vnni_vbmi.cpp.o, matmul_avx2.cpp.o, ...; --objdump for
foreign ones) The loop over tiles is the widest backward branch of a function; loops left inside it (NEON's decoding)
count once. Template parameters: element type, columns and, where there is a third, bands at once (the counts are for
all of them).
"""

import argparse
import re
import subprocess
from collections.abc import Iterator

KINDS = {
    "multiply": re.compile(r"vpdpbusd|vpmaddubsw|vpmaddwd|sdot|smmla|vfmadd.*ps|fmla"),
    "table": re.compile(r"vperm[bit]|vpshufb|tbl"),
    "prefetch": re.compile(r"prefetch|prfm"),
}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(\S+)\s*(.*)$")
Instruction = tuple[int, str, str]  # address, operation, operands
BRANCH = re.compile(r"^(j\w+|b\.?\w*|cbn?z|tbn?z)$")


def functions(path: str, objdump: str) -> Iterator[tuple[str | None, list[Instruction]]]:
    text = subprocess.run(
        [objdump, "-d", "-C", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    name: str | None = None
    body: list[Instruction] = []
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            yield name, body
            name, body = match[1], []
        elif match := INSTRUCTION.match(line):
            body.append((int(match[1], 16), match[2], match[3]))
    yield name, body


def widest_loop(body: list[Instruction]) -> list[str]:
    best: list[str] = []
    for address, operation, operands in body:
        target = re.search(r"\b([0-9a-f]+) <", operands)
        if BRANCH.match(operation) and target and int(target[1], 16) <= address:
            inside = [op for at, op, _ in body if int(target[1], 16) <= at <= address]
            best = max(best, inside, key=len)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--objdump", default="objdump")
    arguments = parser.parse_args()
    for path in arguments.objects:
        print(path.rsplit("/", 1)[-1])
        for name, body in functions(path, arguments.objdump):
            match = name and re.search(r"\b((?!all_)\w+_times_\w+)<(.*?)>\(", name)
            loop = widest_loop(body)
            if not match or not loop:
                continue
            counts = "  ".join(f"{kind} {sum(bool(p.match(op)) for op in loop):4}" for kind, p in KINDS.items())
            parameters = re.sub(r"specdec::mxfp6::|\(anonymous namespace\)::", "", match[2])
            print(f"  {match[1]:22}{parameters:16} total {len(loop):5}  {counts}")


if __name__ == "__main__":
    main()
