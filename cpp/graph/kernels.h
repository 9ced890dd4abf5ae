// Reports the kernels in use.
#pragma once

#include <vector>

namespace specdec {

struct KernelChoice {
  const char* family;   // "MXFP6", "floats", "blocks", "attention"
  const char* kernels;  // the name of the family's table of functions
};

// One entry per family, chosen by SPECDEC_ISA or the best for this CPU (base/isa.h).
std::vector<KernelChoice> chosen_kernels();

// The kernel that multiplies matrices of this type (a ggml_type): the name of ours; "llama.cpp" (its reference
// algorithm, for passes of any length); or "none" for types that no matrix can have.
const char* kernel_of_type(int ggml_type);

}  // namespace specdec
