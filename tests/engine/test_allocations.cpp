// A generation with the bundled pair: our code, attention and executor included, does not allocate per token (these
// files have no MXFP6). Only llama.cpp's passes do, and pieces whose text exceeds the small-string buffer.

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

// Allocations in the second half of a generation.
int allocations_of_half_a_text(Generator& generator, const Request& request) {
  const std::shared_ptr<RequestHandle> handle = generator.submit(request);
  struct Counts {
    int pieces = 0, before = 0, after = 0;
  };
  const auto counts = std::make_shared<Counts>();  // shared: the listener may be called once more after the end
  handle->set_listener([counts, half = request.max_tokens / 2] {
    ++counts->pieces;
    if (counts->pieces <= half) counts->before = allocations::count;
    if (counts->pieces <= 2 * half - 1)
      counts->after = allocations::count;  // the last piece's report on drafts is left out
  });
  while (!handle->wait_for_end(std::chrono::milliseconds(100))) {
  }
  generator.drafting();  // the listener is not running any more
  CHECK(counts->pieces > request.max_tokens / 2 && handle->stats().tokens == request.max_tokens);
  const int all = counts->after - counts->before;
  return all;
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
      for (const int k :
           {0, 3}) {  // fixed, because "auto" may make its first long draft at any time, depending on measured times
        request.sampling.temperature = temperature;
        request.num_draft_tokens = k;
        const int allocations = allocations_of_half_a_text(generator, request);
        CHECK(allocations < (suffix ? 48 : 32));  // 32 tokens; a few of their texts are long
      }
    }
  }
}

TEST_MAIN()
