"""Runs the programs of tests/fuzz, and prints how many inputs each has seen.

    python tests/fuzz/run.py --build build/fuzz [PROGRAM[=RUNS] ...] [--seed S] [--record]     (make fuzz)

Without RUNS: a short run, the same every time; without programs: of all. RUNS is a number of inputs or of seconds
("600s"); then inputs that reach new code are kept in BUILD/corpus and used again. A finding is an input after which the
program ended: it is kept in BUILD/findings, and the exit code is 1. `BUILD/tests/fuzz/fuzz_PROGRAM FILE` runs it again;
SPECDEC_FUZZ_SHOW=1 prints what is changed in a model, SPECDEC_FUZZ_FILE=m.gguf keeps the model. With --record, inputs
without a finding are added to tests/figures.jsonl, for docs/security.md.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from tests import figures

ROOT = pathlib.Path(__file__).parents[2]
# Inputs of a short run, and the longest input in bytes.
PROGRAMS = {
    "gguf": (20_000, 4096),
    "models": (2_000, 65),
    "generate": (150, 65),
    "requests": (10_000, 256),
    "prompts": (10_000, 1024),
    "constraints": (4_000, 1024),
    "results": (1_000, 512),
    "pictures": (10_000, 4096),
    "rpc": (500, 512),
}
LEAKS = ("generate", "rpc")  # what llama.cpp's functions held when an exception passed through them
AT_A_TIME = {"generate": 2_500}  # then a new process
OPTIONS = ["-timeout=120", "-rss_limit_mb=4096", "-print_final_stats=1", "-reload=0"]
BOUNDS = {
    "constraints": ["-timeout=30", "-rss_limit_mb=2048"]
}  # where tighter; without sanitizers a tenth of that time
# For the dictionaries, in libFuzzer's notation.
GGUF_WORDS = ["GGUF\\x03\\x00\\x00\\x00", "general.architecture", "general.alignment", "split.count", "\\xff" * 8]
JSON_WORDS = [
    '{\\"prompt\\":',
    '\\"',
    "null",
    "true",
    "1e999",
    "-1",
    "18446744073709551615",
    *"[]{}",
    "\\\\u0000",
    "\\\\ud800",
]
OPTION_WORDS = [
    f'\\"{option}\\":'
    for option in ("max_tokens", "temperature", "top_k", "stop", "seed", "logit_bias", "drafting", "id")
]
CONSTRAINT_WORDS = ["root ::= ", "{2,", "[^", "(?:", "\\\\u1234", "\\\\p{L}", "TagDispatch(", *JSON_WORDS]
KEYWORDS = ["$ref", "$defs", "type", "anyOf", "oneOf", "enum", "const", "pattern", "items", "required", "format"]
CONSTRAINT_WORDS += [f'\\"{keyword}\\":' for keyword in KEYWORDS]
PICTURE_WORDS = [
    "\\x89PNG\\x0d\\x0a\\x1a\\x0a",
    "IHDR",
    "IDAT",
    "PLTE",
    "tRNS",
    "IEND",
    "CgBI",
    "eXIf",
    "GIF87a",
    "GIF89a",
    "BM",
]
PICTURE_WORDS += [
    f"\\xff\\x{kind}" for kind in ("d8", "d9", "da", "db", "c0", "c2", "c4", "dd", "d0", "e0", "e1", "ee")
]
PICTURE_WORDS += ["Exif\\x00\\x00", "Adobe\\x00", "II*\\x00", "MM\\x00*", "\\x21\\xf9\\x04", "\\x00\\x00\\x00\\x00"]
WORDS = {
    "pictures": PICTURE_WORDS,
    "gguf": GGUF_WORDS,
    "requests": JSON_WORDS,
    "prompts": JSON_WORDS + OPTION_WORDS,
    "constraints": CONSTRAINT_WORDS,
    "results": [*JSON_WORDS, '\\"index\\":'],
}


def run(
    program: str, amount: str, seed: int, build: pathlib.Path, corpus: pathlib.Path | None, is_recorded: bool
) -> tuple[int, float, bool]:
    """Inputs run, seconds, and whether all was well."""
    findings = build / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SPECDEC_FUZZ_MODELS": str(build / "sound")}
    environment["ASAN_OPTIONS"] = f"allocator_may_return_null=1:detect_leaks={int(program not in LEAKS)}"
    suppressions = pathlib.Path(__file__).with_name("undefined.txt")
    environment["UBSAN_OPTIONS"] = f"halt_on_error=1:print_stacktrace=1:suppressions={suppressions}"
    seconds = int(amount[:-1]) if amount.endswith("s") else 0
    left = None if seconds else int(amount)
    begin, done = time.monotonic(), 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as temporary:
        environment["TMPDIR"] = temporary
        words = pathlib.Path(temporary) / "words.txt"
        words.write_text("".join(f'"{word}"\n' for word in WORDS.get(program, [])), encoding="utf-8")
        new = pathlib.Path(temporary) / "corpus"
        new.mkdir()
        while (time.monotonic() - begin < seconds) if left is None else done < left:
            at_once = AT_A_TIME.get(program, 1 << 30)
            again = sum(1 for _ in corpus.iterdir()) if corpus else 0  # inputs of the corpus, run first, not counted
            bounds = [f"-runs={again + min(at_once, left - done if left is not None else at_once)}"]
            bounds += [f"-max_total_time={max(1, int(seconds - (time.monotonic() - begin)))}"] if seconds else []
            command = [build / "tests" / "fuzz" / f"fuzz_{program}", *OPTIONS, *BOUNDS.get(program, []), *bounds]
            command += [f"-seed={seed}"]
            command += [f"-dict={words}"] if program in WORDS else []
            command += [f"-max_len={PROGRAMS[program][1]}", "-len_control=0", f"-artifact_prefix={findings}/{program}-"]
            command += [corpus or new] + [seeds for seeds in [build / "sound" / "seeds" / program] if seeds.exists()]
            result = subprocess.run(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace"
            )
            match = re.search(r"number_of_executed_units: (\d+)", result.stderr)
            new_inputs = max(0, int(match[1]) - again) if match else 0
            done += new_inputs
            seed += 1
            if result.returncode != 0 or not match:
                print(result.stderr[-20_000:])
                return done, time.monotonic() - begin, False
            if is_recorded:
                figures.record(program, inputs=new_inputs)
    return done, time.monotonic() - begin, True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM[=RUNS]")
    options = parser.parse_args()
    build = options.build.resolve()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, ROOT / "tests" / "fuzz" / "make_models.py", build / "sound"], check=True, env=environment
    )
    all_well = True
    for word in options.programs or PROGRAMS:
        program, _, amount = word.partition("=")
        corpus = build / "corpus" / program if amount else None
        if corpus:
            corpus.mkdir(parents=True, exist_ok=True)
        amount = amount or str(PROGRAMS[program][0])
        done, seconds, is_well = run(program, amount, options.seed, build, corpus, options.record)
        print(
            f"| `fuzz_{program}` | {done:,} | {'no report' if is_well else 'A REPORT'} | {seconds:.0f} s |", flush=True
        )
        all_well &= is_well
    sys.exit(0 if all_well else 1)


if __name__ == "__main__":
    main()
