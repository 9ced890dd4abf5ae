// Writes a model's logits after every token of one pass: `logits MODEL THREADS`, with token ids (int32) on standard
// input and rows of float32, one per token, on standard output. bench/quality/product_accuracy.py compares them.
//
// Built twice: with our kernels (bench_logits), and against llama.cpp with its default options (bench_logits_stock,
// BENCH_STOCK).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"
#ifndef BENCH_STOCK
#include "llama/backend.h"
#endif

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: logits MODEL THREADS < TOKENS > ROWS\n"), 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  std::vector<llama_token> tokens(1 << 16);
  tokens.resize(std::fread(tokens.data(), sizeof(llama_token), tokens.size(), stdin));
  if (tokens.empty()) return std::fprintf(stderr, "no tokens on standard input\n"), 2;

  llama_model_params model_params = llama_model_default_params();
#ifdef BENCH_STOCK
  llama_backend_init();
#else
  specdec::start_backend();
  model_params.use_extra_bufts = false;
#endif
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(tokens.size());
  params.n_threads = params.n_threads_batch = std::atoi(argv[2]);
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;

  const int n = static_cast<int>(tokens.size());
  llama_batch batch = llama_batch_init(n, 0, 1);
  batch.n_tokens = n;
  for (int i = 0; i < n; ++i) {
    batch.token[i] = tokens[static_cast<std::size_t>(i)];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  bool written = llama_decode(context, batch) == 0;
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  for (int i = 0; i < n && written; ++i) {
    written = std::fwrite(llama_get_logits_ith(context, i), sizeof(float), vocabulary, stdout) == vocabulary;
  }
  written = std::fflush(stdout) == 0 && written;
  llama_batch_free(batch);
  llama_free(context);
  llama_model_free(model);
  return written ? 0 : 1;
}
