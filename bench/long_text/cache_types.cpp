// What a type of KV cache costs in quality, at the end of long texts.
//
// bench_cache_types MODEL THREADS TOKENS TEXT...
//
// Reads the first TOKENS tokens of each text with caches in F16, in Q8_0 with F32 arithmetic, and in Q8_0 with
// integers (cpp/attention/attention_int8.h). The distributions after the last 128 tokens are compared with those of
// F16: mean and largest Kullback-Leibler divergence in nats, and how often the most likely token is the same. Prints
// rows of the table in RESULTS.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "graph/attention.h"
#include "llama.h"
#include "llama/backend.h"

namespace {

constexpr int scored = 128, batch_size = 512;

using Rows = std::vector<std::vector<float>>;

std::vector<llama_token> tokens_of(const llama_vocab* vocabulary, const char* path, std::size_t count) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<llama_token> tokens(text.size() + 8);
  const int found = llama_tokenize(vocabulary, text.data(), static_cast<int>(text.size()), tokens.data(),
                                   static_cast<int>(tokens.size()), true, false);
  if (found < static_cast<int>(count)) {
    std::fprintf(stderr, "%s has %d tokens, fewer than %zu\n", path, std::max(found, 0), count);
    std::exit(1);
  }
  tokens.resize(count);
  return tokens;
}

// The rows after the last tokens.
Rows read(llama_model* model, const std::vector<llama_token>& tokens, int threads, ggml_type type) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(tokens.size());
  params.n_batch = params.n_ubatch = batch_size;
  params.n_threads = params.n_threads_batch = threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = params.type_v = type;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) std::exit(1);
  const int count = static_cast<int>(tokens.size());
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  llama_batch batch = llama_batch_init(batch_size, 0, 1);
  Rows rows;
  for (int begin = 0; begin < count; begin += batch_size) {
    batch.n_tokens = std::min(batch_size, count - begin);
    for (int i = 0; i < batch.n_tokens; ++i) {
      batch.token[i] = tokens[static_cast<std::size_t>(begin + i)];
      batch.pos[i] = begin + i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = begin + i >= count - scored;
    }
    if (llama_decode(context, batch) != 0) std::exit(1);
    for (int i = 0; i < batch.n_tokens; ++i) {
      if (batch.logits[i] == 0) continue;
      const float* logits = llama_get_logits_ith(context, i);
      rows.emplace_back(logits, logits + vocabulary);
    }
  }
  llama_batch_free(batch);
  llama_free(context);
  return rows;
}

double log_sum(const std::vector<float>& logits, float largest) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  return static_cast<double>(largest) + std::log(sum);
}

// KL (reference || model), in nats.
double divergence(const std::vector<float>& reference, const std::vector<float>& model) {
  const double all = log_sum(reference, *std::max_element(reference.begin(), reference.end()));
  const double other = log_sum(model, *std::max_element(model.begin(), model.end()));
  double sum = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - all, log_q = static_cast<double>(model[i]) - other;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  return sum;
}

void compare(const char* text, std::size_t tokens, const char* name, const Rows& reference, const Rows& rows) {
  const auto top = [](const std::vector<float>& row) { return std::max_element(row.begin(), row.end()) - row.begin(); };
  double sum = 0.0, most = 0.0;
  int same = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double nats = divergence(reference[i], rows[i]);
    sum += nats, most = std::max(most, nats);
    same += top(reference[i]) == top(rows[i]);
  }
  const auto count = static_cast<double>(rows.size());
  const std::string path = text;
  std::printf("| %s | %zu | %s | %.5f | %.4f | %.1f %% |\n", path.substr(path.rfind('/') + 1).c_str(), tokens, name,
              sum / count, most, 100.0 * same / count);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 4 ? std::atoi(argv[2]) : 0, count = argc > 4 ? std::atoi(argv[3]) : 0;
  if (threads < 1 || count < scored)
    return std::fprintf(stderr, "usage: bench_cache_types MODEL THREADS TOKENS TEXT..., at least 128 TOKENS\n"), 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  specdec::start_backend();
  llama_model_params params = llama_model_default_params();
  params.use_extra_bufts = false;
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) return 1;
  for (int i = 4; i < argc; ++i) {
    const std::vector<llama_token> tokens =
        tokens_of(llama_model_get_vocab(model), argv[i], static_cast<std::size_t>(count));
    const Rows reference = read(model, tokens, threads, GGML_TYPE_F16);
    for (const bool in_floats : {true, false}) {
      specdec::compute_attention_in_floats(in_floats);
      compare(argv[i], tokens.size(), in_floats ? "Q8_0, F32 arithmetic" : "Q8_0, integers", reference,
              read(model, tokens, threads, GGML_TYPE_Q8_0));
    }
  }
  llama_model_free(model);
  return 0;
}
