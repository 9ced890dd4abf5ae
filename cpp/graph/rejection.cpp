#include "graph/rejection.h"

#include <algorithm>
#include <limits>

#include "ggml.h"

namespace specdec {
namespace {

thread_local std::string rejection;

}  // namespace

void reject_operation(ggml_tensor* out, const ggml_tensor* weights, const char* why) {
  std::fill_n(static_cast<float*>(out->data), ggml_nelements(out), std::numeric_limits<float>::quiet_NaN());
  if (rejection.empty()) rejection = std::string("tensor \"") + weights->name + "\": " + why;
}

std::string take_rejection() {
  std::string taken;
  taken.swap(rejection);
  return taken;
}

}  // namespace specdec
