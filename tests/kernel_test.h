// Tests of a family of kernels on one instruction set, given as the program's argument. Skipped if this CPU lacks it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/isa.h"
#include "check.h"

namespace check {

// Under qemu, where a test may do less of what another run of it does at full speed.
inline bool is_emulated() { return std::getenv("SPECDEC_EMULATED") != nullptr; }

inline std::string& tested_name() {
  static std::string name;
  return name;
}

inline const specdec::Isa& tested_isa() {
  const specdec::IsaSelection selection = specdec::select_isa(tested_name());
  if (selection.isa == nullptr) throw Skip(selection.error);
  return *selection.isa;
}

// The family's kernels for that instruction set.
template <class Kernels>
const Kernels& tested(const std::vector<const Kernels*>& family) {
  return specdec::pick(family, tested_isa());
}

// Bitwise equality that treats all NaNs as equal: instruction sets produce different NaNs.
inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return false;
  }
  return true;
}

// Adds a value's bits to a hash (FNV-1a by words) that is compared with a recorded one.
inline void add_bits(std::uint64_t& hash, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  hash = (hash ^ bits) * 1099511628211u;
}

inline int kernel_test_main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s ISA\n", argv[0]);
    return 2;
  }
  tested_name() = argv[1];
  const specdec::IsaSelection selection = specdec::select_isa(tested_name());
  if (selection.isa == nullptr) {  // also the tests that use no kernel: they belong to the sets that run
    std::printf("skipped: %s\n0 passed, 0 failed\n", selection.error.c_str());
    return 77;
  }
  return run_all();
}

}  // namespace check

#define KERNEL_TEST_MAIN() \
  int main(int argc, char** argv) { return check::kernel_test_main(argc, argv); }
