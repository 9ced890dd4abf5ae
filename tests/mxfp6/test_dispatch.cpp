// Selection of kernels by name and by SPECDEC_ISA.
#include <cstdlib>

#include "check.h"
#include "mxfp6/dispatch.h"

using namespace specdec::mxfp6;

TEST(scalar_is_always_there_and_last) { CHECK(std::string(supported_kernels().back()->name) == "scalar"); }

TEST(no_name_is_the_best) { CHECK(select_kernels("").kernels == supported_kernels().front()); }

TEST(every_supported_name_selects_itself) {
  for (const Kernels* kernels : supported_kernels()) CHECK(select_kernels(kernels->name).kernels == kernels);
}

TEST(unknown_names_are_errors_that_list_what_there_is) {
  const Selection selection = select_kernels("avx9000");
  CHECK(selection.kernels == nullptr);
  CHECK(selection.error.find("unknown instruction set \"avx9000\"") != std::string::npos);
  CHECK(selection.error.find("scalar") != std::string::npos);
}

TEST(known_but_unsupported_names_are_errors) {
#if defined(__aarch64__)
  const char* foreign = "avx2";
#else
  const char* foreign = "neon_dotprod";
#endif
  const Selection selection = select_kernels(foreign);
  CHECK(selection.kernels == nullptr);
  CHECK(selection.error.find("does not support") != std::string::npos);
}

// CTest runs this executable once per value of SPECDEC_ISA and tells what to expect.
TEST(the_environment_decides) {
  const char* expected = std::getenv("EXPECT_ISA");
  if (expected == nullptr) throw check::Skip("EXPECT_ISA is not set");
  const Selection& selection = default_kernels();
  if (std::string(expected) == "error") {
    CHECK(selection.kernels == nullptr);
    CHECK(selection.error.find("SPECDEC_ISA") == 0);
    return;
  }
  if (select_kernels(expected).kernels == nullptr) throw check::Skip(selection.error);
  CHECK(selection.kernels != nullptr && std::string(selection.kernels->name) == expected);
}

TEST_MAIN()
