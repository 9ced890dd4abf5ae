// Times single passes of a model: `passes MODEL THREADS CONTEXT [KV TYPE [mmap|no-mmap|repack|draft|DEVICE[,exact]]]`,
// where "exact" means the device's batch-invariant kernels for passes of at most 8 tokens; then
// lines "n cached" on standard input (n tokens in one pass after `cached` cached ones, with all rows of logits)
// answered by milliseconds. A driver runs several of these processes and asks them in turn, so that changes in the
// machine's speed affect all of them.
//
// A cache of more than 512 tokens repeats 512 tokens: the first 512 are read, the others are copies of their cells in
// the same sequence (so positions repeat, which does not change the cost).
//
// Built twice: with our kernels and settings (bench_passes), and against llama.cpp with its default options
// (bench_passes_stock, BENCH_STOCK); passes.py --ik builds it against ik_llama.cpp, too (BENCH_IK), where "repack"
// is its repacking at run time. Flash attention is on in all.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#ifdef BENCH_IK
#define BENCH_STOCK
#include "ik_llama.h"
#endif
#include "llama.h"
#ifndef BENCH_STOCK
#include "ggml-cpu.h"
#include "llama/backend.h"
#include "llama/devices.h"
#include "llama/invariant_kernels.h"
#include "llama/weight_tiles.h"
#endif

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Appends n tokens; random ids, the same ones for every process.
bool decode(llama_context* context, int vocabulary, int n) {
  static unsigned state = 1;
  llama_batch batch = llama_batch_init(n, 0, 1);
  const int start = llama_memory_seq_pos_max(llama_get_memory(context), 0) + 1;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    batch.token[i] = static_cast<int>((state >> 8) % static_cast<unsigned>(vocabulary));
    batch.pos[i] = start + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = n <= 64 || i == n - 1;
  }
  batch.n_tokens = n;
  const int status = llama_decode(context, batch);
  llama_synchronize(context);
  llama_batch_free(batch);
  return status == 0;
}

constexpr int piece = 512;  // tokens per pass while the cache is filled

// Copies the first sequence's cells to other sequence ids first, because restoring a sequence in llama.cpp replaces an
// older one.
bool repeat_cells(llama_context* context, int copies) {
  std::vector<std::uint8_t> cells(llama_state_seq_get_size(context, 0));
  if (llama_state_seq_get_data(context, cells.data(), cells.size(), 0) == 0) return false;
  for (int copy = 1; copy <= copies; ++copy) {
    if (llama_state_seq_set_data(context, cells.data(), cells.size(), copy) == 0) return false;
    llama_memory_seq_cp(llama_get_memory(context), copy, 0, -1, -1);
  }
  return true;
}

#ifndef BENCH_STOCK
constexpr const char* exact = ",exact";
// Splits it off DEVICE,exact.
bool take_exact(std::string& load) {
  const std::size_t comma = load.find(',');
  if (comma == std::string::npos || load.substr(comma) != exact) return false;
  load.resize(comma);
  return true;
}

bool is_device(const std::string& load) {
  return load != "mmap" && load != "no-mmap" && load != "repack" && load != "draft";
}
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6)
    return std::fprintf(stderr, "usage: passes MODEL THREADS CONTEXT [f16|q8_0 [mmap|no-mmap|repack|draft|DEVICE]]\n"),
           2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
#ifdef BENCH_STOCK
  llama_backend_init();
#else
  specdec::start_backend();
#endif
  llama_model_params model_params = llama_model_default_params();
#ifndef BENCH_STOCK
  std::vector<ggml_backend_device*> devices;
  std::string load = argc == 6 ? argv[5] : "mmap";
  const bool is_exact = take_exact(load);
  if (is_device(load)) {
    devices.push_back(specdec::choose_devices({load}).front().handle);
    model_params.n_gpu_layers = -1;
  }
  devices.push_back(nullptr);
  model_params.devices = devices.data();
#endif
#ifdef BENCH_IK
  model_params.repack_tensors = argc == 6 && std::strcmp(argv[5], "repack") == 0;
  model_params.use_mmap = argc < 6 || std::strcmp(argv[5], "mmap") == 0;
#else
  if (argc == 6 && std::strcmp(argv[5], "no-mmap") == 0) model_params.load_mode = LLAMA_LOAD_MODE_NONE;
#endif
#ifndef BENCH_STOCK
  model_params.use_extra_bufts = false;
#endif
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return 1;
#ifndef BENCH_STOCK
  std::unique_ptr<specdec::WeightTiles> tiles;
  const bool repack = argc == 6 && std::strcmp(argv[5], "repack") == 0,
             as_draft = argc == 6 && std::strcmp(argv[5], "draft") == 0;
  if (repack || as_draft) {
    const specdec::TileWeights weights = as_draft ? specdec::TileWeights::automatic : specdec::TileWeights::exact;
    tiles = std::make_unique<specdec::WeightTiles>(model, weights, std::atoi(argv[2]), [](double) {});
  }
#endif
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(std::atoi(argv[3]));
  params.n_batch = params.n_ubatch = piece;
  params.n_seq_max = params.n_ctx / piece + 1;  // of copies
#ifdef BENCH_IK
  params.flash_attn = true;
#else
  params.kv_unified = true;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
#endif
  params.n_threads = params.n_threads_batch = static_cast<decltype(params.n_threads)>(std::atoi(argv[2]));
  if (argc >= 5) params.type_k = params.type_v = std::strcmp(argv[4], "q8_0") == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
#ifndef BENCH_STOCK
  if (is_exact && !specdec::use_invariant_kernels(*context, true))
    return std::fprintf(stderr, "%s has no batch-invariant kernels\n", load.c_str()), 1;
  ggml_threadpool_params pool = ggml_threadpool_params_default(std::atoi(argv[2]));
  ggml_threadpool* threads = ggml_threadpool_new(&pool);
  llama_attach_threadpool(context, threads, threads);
#endif
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::puts("ready");
  std::fflush(stdout);
  int n = 0, cached = 0, filled = -1;
  while (std::scanf("%d %d", &n, &cached) == 2) {
    const int read = std::min(cached, piece);
    if (cached > piece && cached % piece != 0)
      return std::fprintf(stderr, "more than %d cached tokens must be a multiple of it\n", piece), 2;
    if (filled == cached) {
      llama_memory_seq_rm(llama_get_memory(context), 0, read, -1);
    } else {
      llama_memory_clear(llama_get_memory(context), false);
      if (read > 0 && !decode(context, vocabulary, read)) return 1;
      if (cached > piece && !repeat_cells(context, cached / piece - 1)) return 1;
      filled = cached;
    }
    const double start = now();
    if (!decode(context, vocabulary, n)) return 1;
    std::printf("%.4f\n", 1e3 * (now() - start));
    std::fflush(stdout);
  }
  llama_free(context);
  llama_model_free(model);
}
