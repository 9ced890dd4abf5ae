// Tests of a family of kernels on one instruction set, given as the program's argument. Skipped if this CPU lacks it.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/isa.h"
#include "check.h"

namespace check {

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
