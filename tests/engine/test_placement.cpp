// Whether layers run on a device by default.

#include <limits>

#include "check.h"
#include "engine/placement.h"

namespace {

using namespace specdec;

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

TEST(a_device_must_be_clearly_faster) {
  CHECK(default_place("GPU0", 1.0, 6.25).is_device);
  CHECK(default_place("GPU0", 1.0, 1.25).is_device);
  CHECK(!default_place("GPU0", 1.0, 1.24).is_device);
  CHECK(!default_place("GPU0", 100.0, 0.5).is_device);
  CHECK(!default_place("GPU0", never, 0.5).is_device);  // it failed
  CHECK(default_place("GPU0", 1.0, 6.25).why == "GPU0 multiplies 6.2 times as fast as the CPU");
  CHECK(default_place("GPU0", 100.0, 0.5).why == "GPU0 multiplies 0.005 times as fast as the CPU");
}

TEST_MAIN()
