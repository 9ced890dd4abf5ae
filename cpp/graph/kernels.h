// Which kernels of ours run here.
#pragma once

#include <vector>

namespace specdec {

struct KernelChoice {
  const char* family;   // "MXFP6", "floats", "attention"
  const char* kernels;  // the name of the family's table of functions
};

// Of every family, by SPECDEC_ISA or this CPU's best (base/isa.h).
std::vector<KernelChoice> chosen_kernels();

}  // namespace specdec
