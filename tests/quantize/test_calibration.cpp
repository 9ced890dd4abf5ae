// A calibration whose first pass fails gives back what it took.

#include <cstdint>
#include <cstdio>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "gguf/gguf_file.h"
#include "llama.h"
#include "quantize/calibration.h"
#include "quantize/gguf_quantizer.h"

namespace {
int num_contexts = 0, num_batches = 0;
bool fails = false, throws = false;
}  // namespace

// The linker sends every call here (--wrap).
extern "C" {
llama_context* __real_llama_init_from_model(llama_model* model, llama_context_params params);
llama_context* __wrap_llama_init_from_model(llama_model* model, llama_context_params params) {
  llama_context* const context = __real_llama_init_from_model(model, params);
  num_contexts += context != nullptr ? 1 : 0;
  return context;
}
void __real_llama_free(llama_context* context);
void __wrap_llama_free(llama_context* context) {
  num_contexts -= context != nullptr ? 1 : 0;
  __real_llama_free(context);
}
std::int32_t __real_llama_decode(llama_context* context, llama_batch batch);
std::int32_t __wrap_llama_decode(llama_context* context, llama_batch batch) {
  if (throws) throw std::bad_alloc();  // as the callback that observes a pass can
  return fails ? -3 : __real_llama_decode(context, batch);
}
llama_batch __real_llama_batch_init(std::int32_t num_tokens, std::int32_t embedding, std::int32_t num_sequences);
llama_batch __wrap_llama_batch_init(std::int32_t num_tokens, std::int32_t embedding, std::int32_t num_sequences) {
  ++num_batches;
  return __real_llama_batch_init(num_tokens, embedding, num_sequences);
}
void __real_llama_batch_free(llama_batch batch);
void __wrap_llama_batch_free(llama_batch batch) {
  --num_batches;
  __real_llama_batch_free(batch);
}
}

TEST(a_first_pass_that_fails_leaks_nothing) {
  const std::string model = std::string(MODELS) + "stdlib-draft-f16.gguf";
  std::string text;
  for (int i = 0; i < 50; ++i) text += "def f(x): return x\n";
  specdec::CalibrationOptions options;
  options.window = 64;
  options.num_threads = 1;
  fails = true;
  CHECK_THROWS(specdec::Calibration(model, text, options), specdec::ModelError,
               "reading the calibration text failed (status -3)");
  CHECK(num_contexts == 0 && num_batches == 0);
  fails = false;
  throws = true;
  CHECK_THROWS(specdec::Calibration(model, text, options), std::bad_alloc, "bad_alloc");
  CHECK(num_contexts == 0 && num_batches == 0);
  throws = false;
  {
    const specdec::Calibration calibration(model, text, options);
    CHECK(num_contexts == 1 && num_batches == 1);  // control
  }
  CHECK(num_contexts == 0 && num_batches == 0);
}

// Files list their tensors in orders of their own, "blk.10" before "blk.2": what fits into the memory is read at once
// all the same.
TEST(inputs_are_collected_in_the_order_in_which_they_are_asked_for) {
  const std::string model = std::string(MODELS) + "stdlib-draft-f16.gguf";
  std::string text;
  for (int i = 0; i < 50; ++i) text += "def f(x): return x\n";
  specdec::CalibrationOptions options;
  options.window = 64;
  options.num_threads = 1;
  int readings = 0;
  options.progress = [&](const specdec::CalibrationProgress& at) {
    readings += at.tokens_done == 0 ? 1 : 0;
    return true;
  };
  const auto readings_with = [&](std::uint64_t memory) {
    readings = 0;
    options.memory = memory;
    specdec::Calibration calibration(model, text, options);
    for (const std::string& tensor : options.order) CHECK(calibration.moments(tensor, 0) != nullptr);
    return readings;
  };
  for (const char* layer : {"blk.1.", "blk.0."}) {
    for (const char* tensor : {"ffn_down", "ffn_gate", "ffn_up", "attn_v", "attn_output"}) {
      options.order.push_back(std::string(layer) + tensor + ".weight");
    }
  }
  CHECK(readings_with(std::uint64_t{1} << 30) == 1);
  CHECK(readings_with(0) == 8);  // gate and up share one input
  const std::vector<specdec::GgufFile> parts = specdec::GgufFile::read_parts(model);
  const auto moments_of = [&](const char* tensor) {
    const std::uint64_t columns = specdec::find_tensor(parts, tensor)->shape[0];
    return columns * columns * sizeof(float);
  };
  const std::uint64_t of_a_layer = moments_of("blk.0.ffn_down.weight") + moments_of("blk.0.ffn_gate.weight") +
                                   moments_of("blk.0.attn_v.weight") + moments_of("blk.0.attn_output.weight");
  CHECK(readings_with(of_a_layer) == 2);
}

// Rounds to nearest, and says that one tensor costs much.
class Uneven final : public specdec::MatrixQuantizer {
 public:
  double work(const Matrix& matrix) const override {
    const double weights = static_cast<double>(matrix.rows * matrix.cols);
    return matrix.tensor == dear ? 1000.0 * weights : weights;
  }
  std::string description() const override { return "uneven"; }
  std::int64_t quantize(const float* x, std::int64_t, std::int64_t rows, std::int64_t cols, std::uint8_t* codes,
                        std::uint8_t* scales) const override {
    return specdec::mxfp6::quantize(specdec::mxfp6::ScaleRule::ocp, x, rows, cols, codes, scales);
  }
  static constexpr const char* dear = "blk.0.ffn_down.weight";
};

TEST(progress_is_the_share_of_the_work) {
  Uneven quantizer;
  specdec::QuantizeOptions options;
  options.quantizer = &quantizer;
  options.num_threads = 1;
  options.overwrite = true;
  std::map<std::string, double> gained;  // by tensor
  double latest = 0.0;
  bool falls = false;
  options.progress = [&](const specdec::QuantizeProgress& at) {
    falls = falls || at.done < latest || at.done > 1.0;
    gained[at.tensor] += at.done - latest;
    latest = at.done;
    return true;
  };
  specdec::quantize_gguf(std::string(MODELS) + "stdlib-draft-f16.gguf", "progress.gguf", options);
  CHECK(!falls);
  CHECK(gained[Uneven::dear] > 0.8);
  CHECK(latest > 0.99);
  std::remove("progress.gguf");
}

TEST_MAIN()
