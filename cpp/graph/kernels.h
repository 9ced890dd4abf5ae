// The kernels in use.
#pragma once

#include <vector>

namespace specdec {

struct KernelChoice {
  const char* family;   // "MXFP6", "floats", "blocks", "attention"
  const char* kernels;  // the name of the family's table of functions
};

// One entry per family, chosen by SPECDEC_ISA or the best for this CPU (base/isa.h).
std::vector<KernelChoice> chosen_kernels();

}  // namespace specdec
