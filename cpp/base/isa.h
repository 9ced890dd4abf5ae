// The instruction sets (ISAs, instruction set architectures) that kernels are written for, and the selection of one for
// all families of kernels.
//
// A family (MXFP6 products, attention, ...) is a list of tables of functions, best first, the scalar one last; each
// table states the features it needs. pick() takes the first that the chosen instruction set allows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"

namespace specdec {

// "avx2, fma".
std::string feature_names(CpuFeatures features);

// A value of SPECDEC_ISA. Kernels may use the features in `needs`, and those in `allows` that the CPU has.
struct Isa {
  const char* name;
  CpuFeatures needs, allows;

  CpuFeatures usable() const noexcept { return needs | (allows & cpu_features()); }
};

// The sets that this CPU and operating system can run, best first; scalar is always last.
const std::vector<const Isa*>& supported_isas();

struct IsaSelection {
  const Isa* isa;     // null on error
  std::string error;  // names the requested and the available sets
};

// name: "" selects the best. Unknown or unsupported names give an error.
IsaSelection select_isa(std::string_view name);

// The set named by SPECDEC_ISA, or the best. The environment is read once.
const IsaSelection& default_isa();

// The first of a family's tables that the instruction set allows. The last table of the list needs no features.
template <class Kernels>
const Kernels& pick(const std::vector<const Kernels*>& family, const Isa& isa) noexcept {
  for (const Kernels* kernels : family) {
    if ((kernels->needs & ~isa.usable()) == 0) return *kernels;
  }
  return *family.back();
}

// The same for the default instruction set; scalar if SPECDEC_ISA names one that cannot run (reported at start-up).
template <class Kernels>
const Kernels& pick(const std::vector<const Kernels*>& family) noexcept {
  const Isa* isa = default_isa().isa;
  return isa == nullptr ? *family.back() : pick(family, *isa);
}

}  // namespace specdec
