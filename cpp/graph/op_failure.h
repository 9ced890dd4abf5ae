// How an operation says that it cannot be computed. ggml has no way to report an error from inside an operation: the
// output becomes NaN, and the reason is kept until the pass is over, when the caller of the pass asks for it.
#pragma once

#include <string>

struct ggml_tensor;

namespace specdec {

// Fills `out` with NaN and keeps why, a literal, unless an earlier reason is kept. Called by thread 0 of an operation:
// ggml runs it on the thread that started the pass, so the reason is kept per thread, and passes of other contexts do
// not see it.
void fail_operation(ggml_tensor* out, const ggml_tensor* weights, const char* why) noexcept;

// Why an operation of the passes since the last call on this thread could not be computed; empty: all were.
std::string take_failure();

}  // namespace specdec
