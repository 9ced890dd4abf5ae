// The way our kernels enter llama.cpp's CPU backend without a change to it.
#pragma once

namespace specdec {

// The CPU backend asks every "extra buffer type" for its traits of an operation before it runs it. This adds one of ours,
// after llama.cpp's own list of weight buffers has been frozen, so that weights stay in ordinary mmap'ed memory. Its traits
// claim operations whatever buffer their weights are in. Call once, before any model is loaded.
void install_op_hook();

}  // namespace specdec
