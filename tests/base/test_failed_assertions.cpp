// Whether failed assertions throw, by the guards on the stack.
#include <thread>

#include "base/failed_assertions.h"
#include "check.h"

namespace specdec {
namespace {

TEST(guards_nest) {
  CHECK(!AbortsAsErrors::is_active());
  {
    const AbortsAsErrors outer;
    {
      const AbortsAsErrors inner;
      CHECK(AbortsAsErrors::is_active());
    }
    CHECK(AbortsAsErrors::is_active());
  }
  CHECK(!AbortsAsErrors::is_active());
}

TEST(a_pass_suspends_them) {
  const AbortsAsErrors outer;
  {
    const AbortsAsErrors pass;
    AbortsAsErrors::suspend();
    CHECK(!AbortsAsErrors::is_active());
  }
  CHECK(AbortsAsErrors::is_active());
}

TEST(other_threads_are_not_concerned) {
  const AbortsAsErrors guard;
  bool is_active = true;
  std::thread([&] { is_active = AbortsAsErrors::is_active(); }).join();
  CHECK(!is_active);
}

}  // namespace
}  // namespace specdec

TEST_MAIN()
