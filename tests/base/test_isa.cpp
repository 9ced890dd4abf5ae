// Selection of instruction sets by name and by SPECDEC_ISA, and the kernels that a family gets.
#include <cstdlib>

#include "base/isa.h"
#include "check.h"

using namespace specdec;

TEST(scalar_is_always_there_and_last) { CHECK(std::string(supported_isas().back()->name) == "scalar"); }

TEST(no_name_is_the_best) { CHECK(select_isa("").isa == supported_isas().front()); }

TEST(every_supported_name_selects_itself) {
  for (const Isa* isa : supported_isas()) CHECK(select_isa(isa->name).isa == isa);
}

// TESTED_ISAS: the names that tests/CMakeLists.txt registers every kernel test for.
TEST(every_supported_set_is_tested) {
  const std::string tested = " " TESTED_ISAS " ";
  for (const Isa* isa : supported_isas()) CHECK(tested.find(std::string(" ") + isa->name + " ") != std::string::npos);
}

TEST(unknown_names_are_errors_that_list_what_there_is) {
  const IsaSelection selection = select_isa("avx9000");
  CHECK(selection.isa == nullptr);
  CHECK(selection.error.find("unknown instruction set \"avx9000\"") != std::string::npos);
  CHECK(selection.error.find("scalar") != std::string::npos);
}

TEST(known_but_unsupported_names_are_errors_that_say_what_is_missing) {
#if defined(__aarch64__)
  const char *foreign = "avx2", *missing = "avx2, fma";
#else
  const char *foreign = "neon_dotprod", *missing = "neon, dotprod";
#endif
  const IsaSelection selection = select_isa(foreign);
  CHECK(selection.isa == nullptr);
  CHECK(selection.error.find("does not support") != std::string::npos);
  CHECK(selection.error.find(missing) != std::string::npos);
}

struct FakeKernels {
  const char* name;
  CpuFeatures needs;
};

TEST(a_family_gets_the_first_kernels_whose_needs_are_met) {
  const FakeKernels wide{"wide", cpu::avx2 | cpu::fma | cpu::avx512f}, narrow{"narrow", cpu::avx2 | cpu::fma},
      plain{"plain", 0};
  const std::vector<const FakeKernels*> family{&wide, &narrow, &plain};
  const Isa scalar{"scalar", 0, 0}, half{"half", cpu::avx2, 0}, avx2{"avx2", cpu::avx2 | cpu::fma, 0},
      all{"all", ~0u, 0};
  CHECK(&pick(family, scalar) == &plain);
  CHECK(&pick(family, half) == &plain);  // FMA is missing
  CHECK(&pick(family, avx2) == &narrow);
  CHECK(&pick(family, all) == &wide);
}

TEST(allowed_features_count_only_where_the_cpu_has_them) {
  const FakeKernels some{"some", cpu::f16c}, plain{"plain", 0};
  const std::vector<const FakeKernels*> family{&some, &plain};
  const Isa isa{"isa", 0, cpu::f16c};
  CHECK((&pick(family, isa) == &some) == ((cpu_features() & cpu::f16c) != 0));
}

// CTest runs this executable once per value of SPECDEC_ISA and passes the expected result.
TEST(the_environment_decides) {
  const char* expected = std::getenv("EXPECT_ISA");
  if (expected == nullptr) throw check::Skip("EXPECT_ISA is not set");
  const IsaSelection& selection = default_isa();
  if (std::string(expected) == "unknown") {
    CHECK(selection.isa == nullptr);
    CHECK(selection.error.find("SPECDEC_ISA: unknown") == 0);
    return;
  }
  if (select_isa(expected).isa == nullptr) throw check::Skip(selection.error);
  CHECK(selection.isa != nullptr && std::string(selection.isa->name) == expected);
}

TEST_MAIN()
