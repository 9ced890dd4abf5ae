"""The three things changed in an unpacked llama.cpp before it is built: python prepare.py LLAMA_CPP_FOLDER.

1. ggml must know the ids, names and block sizes of our weight types before a GGUF file with them can be loaded. Ids are far
   from upstream's, so that they do not collide; upstream's own tables have holes too.
2. Threads sleep at ggml's barrier instead of looking for ever (barrier_wait.h says why).
3. RPC, the client. A server that closes its connection no longer ends the process: what is asked of it from then on is
   answered with zeros, and specdec_rpc_is_lost() tells; cpp/llama/context.cpp asks after every pass and makes it an error.
   A server keeps the last graph of each device until any buffer is freed, and closes the connection when it is asked to run
   one that it does not have: a second context on it, or one in another thread, made the client ask for that.

Kernels are plugged in from outside (cpp/graph/op_hook.h). Every edit is anchored and fails loudly when its anchor is missing.
"""

import hashlib
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).parent
TYPES = (("MXFP6_E2M3", "mxfp6_e2m3", 96), ("MXFP6_E3M2", "mxfp6_e3m2", 97))
BLOCK, BLOCK_BYTES = 32, 25  # 32 weights: 24 bytes of 6-bit codes and a scale byte

ENUM = "GGML_TYPE_COUNT   = 43,"
TRAITS = "    [GGML_TYPE_Q2_K] = {\n        .type_name "
BARRIER = "void ggml_barrier(struct ggml_threadpool * tp) {\n"
WAIT = """    while (atomic_load_explicit(&tp->n_barrier_passed, memory_order_relaxed) == n_passed) {
        ggml_thread_cpu_relax();
    }
"""
WAKE = """        atomic_fetch_add_explicit(&tp->n_barrier_passed, 1, memory_order_seq_cst);
        return;
"""

RPC = "ggml/src/ggml-rpc/ggml-rpc.cpp"
RPC_HEADER = "GGML_BACKEND_API bool ggml_backend_is_rpc(ggml_backend_t backend);\n"
RPC_MEMBER = "    void start(const std::string & endpoint);\n    void work();\n"
RPC_SEND = "bool status = send_rpc_cmd(sock, msg_ptr->cmd, msg_ptr->input.get(), msg_ptr->input_size"
RPC_ASSERT = "RPC_STATUS_ASSERT(status);\n"
RPC_NOTICE = f"{16 * ' '}{RPC_SEND});\n{16 * ' '}{RPC_ASSERT}"
RPC_REQUEST = f"{16 * ' '}{RPC_SEND}, msg_ptr->output, msg_ptr->output_size);\n{16 * ' '}{RPC_ASSERT}"
RPC_SIZES = "    size_t max_size = get_max_size(dispatcher, device);\n"  # kept for the life of the process: zeros must not be
RPC_DEVICE = "    uint64_t    last_graph_uid;\n"
RPC_FREE = "    ctx->dispatcher->send(RPC_CMD_FREE_BUFFER, request, sizeof(*request));\n"
RPC_REUSE = "    bool reuse = cgraph->uid != 0 && rpc_dev_ctx->last_graph_uid == cgraph->uid;\n"
RPC_IS = "bool ggml_backend_is_rpc(ggml_backend_t backend) {\n"


def edits() -> list[tuple[str, str, str]]:
    """(file, anchor, what stands there afterwards)."""
    enum = "".join(f"GGML_TYPE_{upper:<7} = {number},\n        " for upper, _, number in TYPES)
    rows = "".join(
        f'    [GGML_TYPE_{upper}] = {{\n        .type_name = "{name}",\n        .blck_size = {BLOCK},\n'
        f"        .type_size = {BLOCK_BYTES},\n        .is_quantized = true,\n    }},\n"
        for upper, name, _ in TYPES
    )
    wait = WAIT.replace("    while (", "    for (int calls = 0; ").replace(") == n_passed)", ") == n_passed; ++calls)")
    wait = wait.replace("ggml_thread_cpu_relax()", "specdec_barrier_wait(&tp->n_barrier_passed, n_passed, calls)")
    wake = WAKE.replace("        return", "        specdec_barrier_wake(&tp->n_barrier_passed);\n        return")
    zeros = "if (!status) {\n    lost = true;\n    memset(msg_ptr->output, 0, msg_ptr->output_size);\n}\n"
    zeros = zeros.replace("\n", "\n" + 16 * " ").rstrip(" ")
    notice = RPC_NOTICE.replace("status = ", "status = !lost && ").replace(RPC_ASSERT, "lost = !status;\n")
    request = RPC_REQUEST.replace("status = ", "status = !lost && ").replace(RPC_ASSERT, zeros)
    freed = "    ctx->dispatcher->num_freed++;\n"
    reuse = "    reuse = reuse && rpc_dev_ctx->num_freed == rpc_ctx->dispatcher->num_freed;\n"
    reuse += "    rpc_dev_ctx->num_freed = rpc_ctx->dispatcher->num_freed;\n"
    is_lost = "bool specdec_rpc_is_lost(const char * endpoint)"
    return [
        ("ggml/include/ggml.h", ENUM, f"{enum}GGML_TYPE_COUNT   = {TYPES[-1][2] + 1},"),
        ("ggml/src/ggml.c", TRAITS, rows + TRAITS),
        ("ggml/src/ggml-cpu/ggml-cpu.c", BARRIER, f'#include "specdec_barrier_wait.h"\n\n{BARRIER}'),
        ("ggml/src/ggml-cpu/ggml-cpu.c", WAIT, wait),
        ("ggml/src/ggml-cpu/ggml-cpu.c", WAKE, wake),
        ("ggml/include/ggml-rpc.h", RPC_HEADER, f"{RPC_HEADER}GGML_BACKEND_API {is_lost};\n"),
        (
            RPC,
            RPC_MEMBER,
            f"{RPC_MEMBER}    std::atomic_bool lost{{false}};\n    std::mutex graphs;\n    uint64_t num_freed = 0;\n",
        ),
        (RPC, RPC_DEVICE, f"{RPC_DEVICE}    uint64_t    num_freed = 0;\n"),
        (
            RPC,
            RPC_FREE,
            f"    std::unique_lock<std::mutex> lock(ctx->dispatcher->graphs);\n{freed}{RPC_FREE}    lock.unlock();\n",
        ),
        (RPC, RPC_REUSE, f"    const std::lock_guard<std::mutex> lock(rpc_ctx->dispatcher->graphs);\n{RPC_REUSE}{reuse}"),
        (RPC, RPC_REQUEST, request),
        (RPC, RPC_NOTICE, notice),
        (RPC, RPC_SIZES, f'{RPC_SIZES}    if (dispatcher->lost) GGML_ABORT("the server closed the connection");\n'),
        (RPC, RPC_IS, f"{is_lost} {{ return get_dispatcher(endpoint)->lost; }}\n\n{RPC_IS}"),
    ]


def fingerprint() -> str:
    """Short hash of the changes: part of the cache key, so that changing them unpacks afresh."""
    return hashlib.sha256((repr(edits()) + (HERE / "barrier_wait.h").read_text(encoding="utf-8")).encode()).hexdigest()[:8]


def prepare(root: pathlib.Path) -> None:
    """Make the changes in the llama.cpp folder `root`; a folder that has them already is left as it is."""
    for name, anchor, text in edits():
        path = root / name
        source = path.read_text(encoding="utf-8")
        if text in source:
            continue
        if source.count(anchor) != 1:
            sys.exit(f"{path}: anchor found {source.count(anchor)} times, expected once: {anchor!r}")
        path.write_text(source.replace(anchor, text), encoding="utf-8")
    shutil.copy(HERE / "barrier_wait.h", root / "ggml/src/ggml-cpu/specdec_barrier_wait.h")


if __name__ == "__main__":
    prepare(pathlib.Path(sys.argv[1]))
