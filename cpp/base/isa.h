// The instruction sets that kernels are written for, and the one choice that all families of kernels follow.
//
// A family (MXFP6 products, attention, ...) is a list of tables of functions, best first, the scalar one last; each table states
// the features it needs. pick() takes the first that the chosen instruction set allows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"

namespace specdec {

// "avx2, fma", in the order of the bits.
std::string feature_names(CpuFeatures features);

// What SPECDEC_ISA may name. Kernels may use the features that it needs, and of those that it allows what the CPU has.
struct Isa {
  const char* name;
  CpuFeatures needs, allows;

  CpuFeatures usable() const noexcept { return needs | (allows & cpu_features()); }
};

// Those this CPU and operating system can run, best first; never empty (scalar is last).
const std::vector<const Isa*>& supported_isas();

struct IsaSelection {
  const Isa* isa;     // null on error
  std::string error;  // what was asked for and what there is
};

// "" is the best; otherwise the name of one. Unknown or unsupported is an error.
IsaSelection select_isa(std::string_view name);

// What SPECDEC_ISA names, or the best. The environment is read once.
const IsaSelection& default_isa();

// The first of a family's tables that the instruction set allows. The last one of the list needs nothing.
template <class Kernels>
const Kernels& pick(const std::vector<const Kernels*>& family, const Isa& isa) noexcept {
  for (const Kernels* kernels : family) {
    if ((kernels->needs & ~isa.usable()) == 0) return *kernels;
  }
  return *family.back();
}

// By the default choice; scalar where SPECDEC_ISA names none that can run (whoever starts the program reports that).
template <class Kernels>
const Kernels& pick(const std::vector<const Kernels*>& family) noexcept {
  const Isa* isa = default_isa().isa;
  return isa == nullptr ? *family.back() : pick(family, *isa);
}

}  // namespace specdec
