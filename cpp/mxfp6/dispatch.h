// Chooses the kernels for this CPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mxfp6/matmul.h"

namespace specdec::mxfp6 {

// Kernels this CPU and operating system can run, best first; never empty (scalar is last).
const std::vector<const Kernels*>& supported_kernels();

struct Selection {
  const Kernels* kernels;  // null on error
  std::string error;       // what was asked for and what there is
};

// "" is the best; otherwise one of scalar, avx2, avx_vnni, avx512vl_vnni, avx512_vnni_vbmi, neon_dotprod. Unknown or unsupported is an error.
Selection select_kernels(std::string_view name);

// What SPECDEC_ISA names, or the best. The environment is read once.
const Selection& default_kernels();

}  // namespace specdec::mxfp6
