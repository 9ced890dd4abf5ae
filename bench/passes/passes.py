"""Milliseconds per pass of n tokens: ours against llama.cpp with its default build options, interleaved in one run.

python -m bench.passes.passes [--shape 1.1b | --files MODEL.gguf ... | --types Q4_K IQ3_S ...] [--ik SOURCE BUILD]
    [--threads 2] [--tokens 1 2 4 8] [--cached 4096] [--kv f16 q8_0] [--rounds 9] [--device Vulkan0]

Every row is a process with a loaded model; the rows take turns, so that changes in the machine's speed affect all of
them. Files are made once in FOLDER (about 4 GB for 1.1b): F16 with random weights (shapes.py), Q8_0 and Q6_K by
llama.cpp's own quantizer, MXFP6 by ours. With --files the rows are those files in both engines, ours repacked and as
the file has them. --types makes such files of random weights, every matrix of that type (8 layers of a 1.1B llama,
0.35B weights). --ik adds ik_llama.cpp, repacked at run time and not: a clone of its source and the folder where it
was built (cmake -S SOURCE -B BUILD -DBUILD_SHARED_LIBS=OFF, target llama). With --device each file is run by us on the
CPU and whole on that device (docs/devices.md), where the kernels are llama.cpp's; with Vulkan also with kernels whose
rows do not depend on the number of tokens ("exact"). Prints a markdown table.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time

from bench.common import shapes
from bench.common.options import parser_of
from bench.common.paths import MADE, ROOT
from bench.common.random_models import model_file
from gguf import GGMLQuantizationType as GgmlType
from tests.models.tiny_models import I_QUANTS, Shape

REPEATS = 3  # passes timed in a row
LONG = 256  # tokens of a pass that is timed once, and that does not wake threads
DEVICE_TYPES = ("Q4_K", "Q8_0", "F16")  # of weights; MXFP6 is Q8_0 on a device


class Passes:
    """A process that times single passes."""

    def __init__(
        self,
        binary: pathlib.Path,
        model: pathlib.Path,
        threads: int,
        context: int,
        kv: str,
        environment: dict[str, str],
        load: str,
    ) -> None:
        self.process = subprocess.Popen(
            [str(binary), str(model), str(threads), str(context), kv, load],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.answer()  # "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.process.args!r} ended")
        return line

    def milliseconds(self, tokens: int, cached: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{tokens} {cached}\n")
        self.process.stdin.flush()
        return float(self.answer())

    def prioritise(self, wanted: bool) -> None:
        """Real-time priority for all threads, so that other programs do not interrupt a pass."""
        policy, level = (os.SCHED_FIFO, 10) if wanted else (os.SCHED_OTHER, 0)
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(level))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def make_models(shape: str, folder: pathlib.Path, build: pathlib.Path) -> dict[str, pathlib.Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = {kind: folder / f"{shape}-{kind}.gguf" for kind in ("f16", "q8_0", "q6_k", "mxfp6_e2m3")}
    if not files["f16"].exists():
        shapes.write(shapes.SHAPES[shape], files["f16"])
    for kind in ("q8_0", "q6_k"):
        if not files[kind].exists():
            command = [build / "bench" / "bench_llama_quantize", files["f16"], files[kind], kind]
            subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    if not files["mxfp6_e2m3"].exists():
        command = [build / "specdec", "quantize", files["f16"], files["mxfp6_e2m3"]]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return files


Row = tuple[pathlib.Path, pathlib.Path, dict[str, str], str]  # binary, model, environment, how weights are loaded


def rows_of_shape(files: dict[str, pathlib.Path], ours: pathlib.Path, stock: pathlib.Path) -> dict[str, Row]:
    return {
        "F16, llama.cpp": (stock, files["f16"], {}, "mmap"),
        "Q8_0, llama.cpp": (stock, files["q8_0"], {}, "mmap"),
        "Q6_K, llama.cpp": (stock, files["q6_k"], {}, "mmap"),
        "Q6_K, llama.cpp, --no-mmap": (stock, files["q6_k"], {}, "no-mmap"),
        "Q6_K, llama.cpp, untiled": (stock, files["q6_k"], {"GGML_CPU_TILED_MM": "0"}, "mmap"),
        "Q8_0, ours": (ours, files["q8_0"], {}, "repack"),
        "Q6_K, ours": (ours, files["q6_k"], {}, "repack"),
        "F16, ours": (ours, files["f16"], {}, "mmap"),
        "F16, ours, avx2": (ours, files["f16"], {"SPECDEC_ISA": "avx2"}, "mmap"),
        "MXFP6 E2M3": (ours, files["mxfp6_e2m3"], {}, "mmap"),
        "MXFP6 E2M3, --no-mmap": (ours, files["mxfp6_e2m3"], {}, "no-mmap"),
        "MXFP6 E2M3, avx2": (ours, files["mxfp6_e2m3"], {"SPECDEC_ISA": "avx2"}, "mmap"),
        "MXFP6 E2M3, 256-bit VNNI": (ours, files["mxfp6_e2m3"], {"SPECDEC_ISA": "avx512vl_vnni"}, "mmap"),
    }


def make_types(types: list[str], folder: pathlib.Path, build: pathlib.Path, is_small: bool) -> list[pathlib.Path]:
    """llama.cpp's quantizer takes hours for types with a grid: random blocks."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = Shape(width=2048, heads=32, kv_heads=4, head=64, ffn=5632, layers=8, context=1024)
    if is_small:
        shape, folder = Shape(width=256, head=64, ffn=512, context=1024), folder / "small"
        folder.mkdir(exist_ok=True)
    files = []
    for type in types:
        files.append(folder / f"0.35b-{type}.gguf")
        if GgmlType[type] in I_QUANTS:
            model_file(files[-1], "llama", shape, GgmlType[type])
        elif not files[-1].exists():
            source = model_file(folder / "0.35b.gguf", "llama", shape)
            command = [build / "bench" / "bench_llama_quantize", source, files[-1], type]
            subprocess.run([str(part) for part in command], check=True)
    return files


def build_with_ik(source: pathlib.Path, build: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    command: list[str | pathlib.Path] = ["c++", "-std=c++17", "-O2", "-DBENCH_IK"]
    command += [f"-I{source}/include", f"-I{source}/ggml/include"]
    command += [ROOT / "bench" / "passes" / "passes.cpp", build / "src" / "libllama.a"]
    command += [build / "ggml" / "src" / "libggml.a", "-fopenmp", "-lpthread", "-ldl", "-o", to]
    subprocess.run([str(part) for part in command], check=True)
    return to


def rows_of_files(
    files: list[pathlib.Path], ours: pathlib.Path, stock: pathlib.Path, ik: pathlib.Path | None, device: str | None
) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for file in files:
        if device is not None:
            rows[f"{file.stem}, the CPU"] = (ours, file, {}, "repack")
            rows[f"{file.stem}, {device}"] = (ours, file, {}, device)
            if device.startswith("Vulkan"):  # others have no such kernels
                rows[f"{file.stem}, {device}, exact"] = (ours, file, {}, f"{device},exact")
            continue
        if ik is not None:
            rows[f"{file.stem}, ik_llama.cpp"] = (ik, file, {}, "mmap")
            rows[f"{file.stem}, ik_llama.cpp, repacked"] = (ik, file, {}, "repack")
        rows[f"{file.stem}, llama.cpp"] = (stock, file, {}, "mmap")
        rows[f"{file.stem}, ours"] = (ours, file, {}, "repack")
        if ik is None:
            rows[f"{file.stem}, ours, as a draft"] = (ours, file, {}, "draft")
            rows[f"{file.stem}, ours, --no-repack"] = (ours, file, {}, "mmap")
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--shape", choices=shapes.SHAPES, default="1.1b")
    parser.add_argument("--files", type=pathlib.Path, nargs="+", help="GGUF files instead of a shape")
    parser.add_argument("--types", nargs="+", choices=GgmlType.__members__, help="of random files instead of a shape")
    parser.add_argument("--ik", type=pathlib.Path, nargs=2, metavar=("SOURCE", "BUILD"), help="ik_llama.cpp's folders")
    parser.add_argument("--device", help="a device to run the files on (specdec generate --list-devices)")
    parser.add_argument("--small", action="store_true", help="a small model for --types, to try the command")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument(
        "--cached", type=int, default=0, help="tokens in the cache before the pass; above 512 a multiple of it"
    )
    parser.add_argument("--kv", nargs="+", choices=("f16", "q8_0"), default=["f16"], help="types of the KV cache")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--realtime", action="store_true", help="timed passes run before other programs (Linux, as root)"
    )
    parser.add_argument("--rows", nargs="+", help="only rows whose name contains one of these")
    parser.add_argument("--models", type=pathlib.Path, default=MADE)
    arguments = parser.parse_args()
    if arguments.device and not arguments.files and not arguments.types:
        parser.error("--device needs --files or --types")
    ours, stock = arguments.build / "bench" / "bench_passes", arguments.build / "bench" / "bench_passes_stock"
    if arguments.types:
        arguments.files = make_types(arguments.types, arguments.models, arguments.build, arguments.small)
    if arguments.files:
        ik = None
        if arguments.ik:
            ik = build_with_ik(arguments.ik[0], arguments.ik[1], arguments.models / "passes_ik")
        rows, title = rows_of_files(arguments.files, ours, stock, ik, arguments.device), "Files as downloaded"
    else:
        files = make_models(arguments.shape, arguments.models, arguments.build)
        rows, title = rows_of_shape(files, ours, stock), f"{arguments.shape} llama shape"
    if arguments.rows:
        rows = {name: row for name, row in rows.items() if any(part in name for part in arguments.rows)}
    context = max(arguments.tokens) + arguments.cached + 64
    processes = {
        f"{name}, {kv} KV" if len(arguments.kv) > 1 else name: Passes(
            binary, file, arguments.threads, context, kv, environment, load
        )
        for name, (binary, file, environment, load) in rows.items()
        for kv in arguments.kv
    }
    times: dict[tuple[str, int], list[float]] = {}
    for round_ in range(arguments.rounds + 1):
        # The previous process's worker threads poll for a while: wait until they sleep. Passes on a device have none.
        pause = 0.0 if arguments.device and all(arguments.device in row[3] for row in rows.values()) else 0.2
        for n in arguments.tokens:
            turns = list(processes.items())
            for name, process in turns if round_ % 2 == 0 else reversed(turns):
                time.sleep(pause)
                process.milliseconds(n if n < LONG or round_ == 0 else 1, arguments.cached)  # wakes the threads
                if arguments.realtime:
                    process.prioritise(True)
                elapsed = [process.milliseconds(n, arguments.cached) for _ in range(REPEATS if n < LONG else 1)]
                if arguments.realtime:
                    process.prioritise(False)
                if round_ > 0:  # the first touches the file
                    times.setdefault((name, n), []).extend(elapsed)
        print(f"round {round_} of {arguments.rounds}", file=sys.stderr, flush=True)
    for process in processes.values():
        process.close()

    first, last = arguments.tokens[0], arguments.tokens[-1]
    print(f"{title}, {arguments.threads} threads, {arguments.cached} cached tokens, medians (best) in ms\n")
    print("| weights | " + " | ".join(f"n={n}" for n in arguments.tokens) + f" | t({last})/t({first}) |")
    print("|---|" + "---|" * (len(arguments.tokens) + 1))
    for name in processes:
        medians = [statistics.median(times[name, n]) for n in arguments.tokens]
        cells = [
            f"{median:.1f} ({min(times[name, n]):.1f})" for n, median in zip(arguments.tokens, medians, strict=True)
        ]
        print(f"| {name} | " + " | ".join(cells) + f" | {medians[-1] / medians[0]:.2f} |")

    def per_round(name: str, n: int) -> list[float]:
        elapsed = times[name, n]
        repeats = len(elapsed) // arguments.rounds
        return [statistics.median(elapsed[i : i + repeats]) for i in range(0, len(elapsed), repeats)]

    base, *others = processes
    print(f"\nTimes as fast as {base}, in the same round: median (quartiles) over the rounds\n")
    print("| weights | " + " | ".join(f"n={n}" for n in arguments.tokens) + " |")
    print("|---|" + "---|" * len(arguments.tokens))
    for name in others if arguments.rounds > 1 else ():
        cells = []
        for n in arguments.tokens:
            ratios = [slow / fast for slow, fast in zip(per_round(base, n), per_round(name, n), strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
