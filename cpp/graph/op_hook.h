// Adds our kernels to llama.cpp's CPU backend without changing its code.
#pragma once

namespace specdec {

// Before it runs an operation, the CPU backend asks every "extra buffer type" for an implementation (traits). This adds
// our buffer type after llama.cpp has frozen its list of weight buffers, so that weights stay in ordinary mmap'ed
// memory. Our traits accept operations with weights in any buffer. Call once, before any model is loaded.
// `before_operation` is called before an operation is planned or run, on each thread that does; it must be quick and
// throw nothing.
void install_op_hook(void (*before_operation)());

}  // namespace specdec
