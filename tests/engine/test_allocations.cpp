// A generation with the bundled pair: our code, attention and executor included, does not allocate per token (these files have no MXFP6).
// Only llama.cpp's passes do, and pieces whose text exceeds the small-string buffer.

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "allocations.h"
#include "check.h"
#include "engine/generator.h"
#include "llama.h"

struct ggml_cgraph;
struct ggml_cplan;

// The linker redirects every call here (--wrap). A graph is run by our attention and by C code.
extern "C" {
std::int32_t __real_llama_decode(llama_context* context, llama_batch batch);
std::int32_t __wrap_llama_decode(llama_context* context, llama_batch batch) {
  const allocations::Pause theirs;
  return __real_llama_decode(context, batch);
}
ggml_status __real_ggml_graph_compute(ggml_cgraph* graph, ggml_cplan* plan);
ggml_status __wrap_ggml_graph_compute(ggml_cgraph* graph, ggml_cplan* plan) {
  const allocations::Pause ours(true);
  return __real_ggml_graph_compute(graph, plan);
}
}

namespace {

using namespace specdec;

// Allocations in the second half of a generation, except those of long pieces.
int allocations_of_half_a_text(Generator& generator, const Request& request) {
  const std::shared_ptr<RequestHandle> handle = generator.submit(request);
  std::atomic<int> before{-1}, after{-1};
  const auto half = static_cast<std::size_t>(request.max_tokens / 2);
  handle->set_listener([&, &output = *handle] {
    if (before < 0 && static_cast<std::size_t>(output.stats().tokens) >= half) before = allocations::count.load();
    if (!output.is_done()) after = allocations::count.load();  // the end reports on the drafts
  });
  while (!handle->wait_for_end(std::chrono::milliseconds(100))) {
  }
  const int all = after - before;
  CHECK(before > 0 && handle->stats().tokens == request.max_tokens);
  int long_texts = 0;  // each is made for the piece and copied for the handle
  for (std::size_t i = half; const std::optional<Piece> piece = handle->piece(i); ++i) {
    long_texts += piece->text.capacity() > std::string().capacity() ? 2 : 0;
  }
  return all - long_texts;
}

}  // namespace

// The text's index grows by doubling.
TEST(a_token_allocates_nothing_but_what_the_suffix_index_needs) {
  for (const bool suffix : {false, true}) {
    GeneratorOptions options;
    options.suffix = suffix;
    options.target = std::string(MODELS) + "stdlib-target-f16.gguf";
    options.draft = DraftModel{std::string(MODELS) + "stdlib-draft-f16.gguf"};
    options.n_threads = 2;
    Generator generator(options);
    Request request;
    request.prompt = "def bfs(graph, start):\n";
    request.max_tokens = 64;
    request.seed = 1;
    request.stop = {"no such text"};
    request.sampling.logit_bias = {{0, -std::numeric_limits<double>::infinity()}};
    for (const double temperature : {0.0, 0.8}) {
      for (const int k : {0, 3}) {  // fixed, because "auto" may make its first long draft at any time, depending on measured times
        request.sampling.temperature = temperature;
        request.num_draft_tokens = k;
        const int allocations = allocations_of_half_a_text(generator, request);
        CHECK(suffix ? allocations < 48 : allocations <= 0);
      }
    }
  }
}

TEST_MAIN()
