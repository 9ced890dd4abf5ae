// A calibration whose first pass fails gives back what it took.

#include <string>

#include "base/error.h"
#include "check.h"
#include "llama.h"
#include "quantize/calibration.h"

namespace {
int num_contexts = 0;
bool fails = false;
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
std::int32_t __wrap_llama_decode(llama_context* context, llama_batch batch) { return fails ? -3 : __real_llama_decode(context, batch); }
}

TEST(a_first_pass_that_fails_leaks_no_context) {
  const std::string model = std::string(MODELS) + "stdlib-draft-f16.gguf";
  std::string text;
  for (int i = 0; i < 50; ++i) text += "def f(x): return x\n";
  specdec::CalibrationOptions options;
  options.window = 64;
  options.num_threads = 1;
  fails = true;
  CHECK_THROWS(specdec::Calibration(model, text, options), specdec::ModelError, "reading the calibration text failed (status -3)");
  CHECK(num_contexts == 0);
  fails = false;
  {
    const specdec::Calibration calibration(model, text, options);
    CHECK(num_contexts == 1);  // control
  }
  CHECK(num_contexts == 0);
}

TEST_MAIN()
