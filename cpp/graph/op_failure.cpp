#include "graph/op_failure.h"

#include <algorithm>
#include <limits>

#include "ggml.h"

namespace specdec {
namespace {

// `why` is null if there is no failure. No std::string: an operation must not throw, because other threads wait for it.
struct Failure {
  char tensor[GGML_MAX_NAME];
  const char* why;
};
thread_local Failure failure = {};

}  // namespace

void fail_operation(ggml_tensor* out, const ggml_tensor* weights, const char* why) noexcept {
  std::fill_n(static_cast<float*>(out->data), ggml_nelements(out), std::numeric_limits<float>::quiet_NaN());
  if (failure.why != nullptr) return;
  std::copy_n(weights->name, GGML_MAX_NAME, failure.tensor);
  failure.why = why;
}

std::string take_failure() {
  if (failure.why == nullptr) return {};
  std::string text = std::string("tensor \"") + failure.tensor + "\": " + failure.why;
  failure.why = nullptr;
  return text;
}

}  // namespace specdec
