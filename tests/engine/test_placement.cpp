// Which layers run on which devices.

#include <limits>

#include "check.h"
#include "engine/placement.h"

using namespace specdec;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::uint64_t scratch = 5, cache = 1;

// 4 layers of 10 bytes and an output of 30.
LayerNeed need() {
  LayerNeed result;
  result.weights = {10, 10, 10, 10};
  result.output = 30;
  result.cache = cache;
  result.scratch = scratch;
  return result;
}

}  // namespace

TEST(a_device_must_be_clearly_faster) {
  CHECK(default_place("GPU0", 1.0, 6.25).is_device);
  CHECK(default_place("GPU0", 1.0, 1.25).is_device);
  CHECK(!default_place("GPU0", 1.0, 1.24).is_device);
  CHECK(!default_place("GPU0", 100.0, 0.5).is_device);
  CHECK(!default_place("GPU0", never, 0.5).is_device);
  CHECK(default_place("GPU0", 1.0, 6.25).why == "GPU0 multiplies 6.2 times as fast as the CPU");
  CHECK(default_place("GPU0", 100.0, 0.5).why ==
        "GPU0 multiplies 0.005 times as fast as the CPU, which therefore runs all layers");
}

TEST(the_last_layers_are_divided_in_proportion) {
  const Division even = divide(need(), 5, {1.0f, 1.0f});
  CHECK(even.layers == (std::vector<int>{3, 2}));
  CHECK(even.bytes == (std::vector<std::uint64_t>{3 * (10 + cache) + scratch, 10 + cache + 30 + scratch}));
  CHECK(divide(need(), 5, {3.0f, 1.0f}).layers == (std::vector<int>{4, 1}));
  CHECK(divide(need(), 2, {1.0f, 1.0f}).bytes == (std::vector<std::uint64_t>{10 + cache + scratch, 30 + scratch}));
  const Division second = divide(need(), 1, {0.0f, 1.0f});
  CHECK(second.layers == (std::vector<int>{0, 1}));
  CHECK(second.bytes == (std::vector<std::uint64_t>{0, 30 + scratch}));
  CHECK(divide(need(), 0, {1.0f}).bytes == std::vector<std::uint64_t>{0});
}

// A sum over the devices would say that all fit.
TEST(every_device_must_hold_its_part) {
  const std::vector<float> halves{1.0f, 1.0f};
  CHECK(layers_in(need(), halves, {38, 46}) == 5);
  CHECK(layers_in(need(), halves, {38, 45}) == 3);  // two on the first one, and the output
  CHECK(layers_in(need(), halves, {37, 1000}) == 4);
  CHECK(layers_in(need(), halves, {1000, 34}) == 1);
  CHECK(layers_in(need(), {1.0f}, {34}) == 0);
  CHECK(layers_in(need(), {1.0f}, {35}) == 1);
}

TEST(a_split_is_numbers_from_0) {
  GeneratorOptions options;
  CHECK(split_of(options).empty());
  options.tensor_split = "3,0,1.5";
  CHECK((split_of(options) == std::vector<float>{3.0f, 0.0f, 1.5f}));
  for (const char* text : {"a", "1,,2", "1,-1", "1x", "nan", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}) {
    options.tensor_split = text;
    CHECK_THROWS(split_of(options), std::invalid_argument,
                 "tensor_split is \"" + options.tensor_split + "\"; it must be numbers from 0, a part for each device");
  }
}

TEST_MAIN()
