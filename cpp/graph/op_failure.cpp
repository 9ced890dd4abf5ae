#include "graph/op_failure.h"

#include <algorithm>
#include <limits>

#include "ggml.h"

namespace specdec {
namespace {

thread_local std::string failure;

}  // namespace

void fail_operation(ggml_tensor* out, const ggml_tensor* weights, const char* why) {
  std::fill_n(static_cast<float*>(out->data), ggml_nelements(out), std::numeric_limits<float>::quiet_NaN());
  if (failure.empty()) failure = std::string("tensor \"") + weights->name + "\": " + why;
}

std::string take_failure() {
  std::string taken;
  taken.swap(failure);
  return taken;
}

}  // namespace specdec
