// Timing single passes: the cache that each of them starts from and leaves, on a toy model.
#include "check.h"
#include "engine/pass_times.h"
#include "speculative/toy_model.h"

namespace {

const std::vector<specdec::Token> text = {3, 1, 4, 1, 5};

toy::Model model_holding(int length, int context) {
  toy::Model model(8, 1, context);
  for (int i = 0; i < length; ++i) model.decode({{0, text.data(), 1, 0}});
  model.num_passes = model.largest_pass = 0;
  return model;
}

}  // namespace

TEST(the_median_is_the_middle_or_the_mean_of_the_two_there) {
  CHECK(specdec::median({3.0, 1.0, 2.0}) == 2.0);
  CHECK(specdec::median({4.0, 1.0, 2.0, 3.0}) == 2.5);
}

TEST(every_pass_starts_from_the_same_cache) {
  toy::Model model = model_holding(10, 64);
  std::vector<specdec::Token> seen;
  model.table = [&](const std::vector<specdec::Token>& context) {
    seen = context;
    return std::vector<float>(8, 0.0f);
  };
  CHECK(specdec::time_pass(model, 0, text, 7, 7, 5) >= 0.0);
  CHECK(model.num_passes == 6);  // the first is not timed
  CHECK(model.largest_pass == 7);
  CHECK(model.length(0) == 10);
  CHECK(seen.size() == 17);
  CHECK(std::vector<specdec::Token>(seen.begin() + 10, seen.end()) ==
        std::vector<specdec::Token>({3, 1, 4, 1, 5, 3, 1}));
}

TEST(a_full_context_makes_room) {
  toy::Model model = model_holding(64, 64);
  specdec::time_pass(model, 0, text, 8, 8, 1);
  CHECK(model.length(0) == 56);
}

TEST(a_pass_that_fails_leaves_the_cache_as_it_was) {
  toy::Model model = model_holding(10, 64);
  model.before_pass = [](int pass) {
    if (pass == 3) throw std::runtime_error("interrupted");
  };
  CHECK_THROWS(specdec::time_pass(model, 0, text, 4, 4, 5), std::runtime_error, "interrupted");
  CHECK(model.length(0) == 10);
}

TEST_MAIN()
