// Reports that an operation cannot be computed. ggml has no way to report an error from inside an operation, so the
// output becomes NaN, and the reason is kept until the caller of the pass asks for it.
#pragma once

#include <string>

struct ggml_tensor;

namespace specdec {

// Fills `out` with NaN and keeps `why`, a literal, unless an earlier reason is kept. To be called by thread 0 of an
// operation: ggml runs it on the thread that started the pass, so reasons are kept per thread, and passes of other
// contexts do not see them.
void fail_operation(ggml_tensor* out, const ggml_tensor* weights, const char* why) noexcept;

// Why an operation in the passes since this thread's last call could not be computed; empty if all could.
std::string take_failure();

}  // namespace specdec
