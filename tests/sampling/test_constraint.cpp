// Masks of tokens, and a constraint that follows a sequence with drafts.
#include <memory>

#include "check.h"
#include "sampling/constraint.h"
#include "toy_constraint.h"

namespace {

using namespace specdec;
using sampling::ConstraintState;
using sampling::TokenMask;
using Text = std::vector<Token>;

TokenMask mask_of(int vocabulary, const Text& tokens) {
  TokenMask mask;
  mask.fill(vocabulary, [&](std::uint32_t* words) {
    for (const Token token : tokens) words[token / 32] |= 1u << (token % 32);
  });
  return mask;
}

// Token t may follow an output that ends with t - 1 or t (modulo 4); anything may begin it.
std::uint32_t same_or_next(const Text& output) {
  if (output.empty()) return 0b1111u;
  return 1u << output.back() | 1u << (output.back() + 1) % 4;
}

Text allowed_after(ConstraintState& state, const Text& tokens) {
  const TokenMask& mask = state.mask(tokens.data(), static_cast<int>(tokens.size()));
  Text allowed;
  for (Token token = 0; token < 40; ++token) {
    if (mask.contains(token)) allowed.push_back(token);
  }
  return allowed;
}

}  // namespace

TEST(a_mask_knows_its_tokens) {
  const TokenMask mask = mask_of(70, {0, 31, 32, 69});
  for (Token token = -1; token < 200; ++token)
    CHECK(mask.contains(token) == (token == 0 || token == 31 || token == 32 || token == 69));
  CHECK(!mask.empty() && mask.only_token() == -1);
  CHECK(TokenMask().empty() && TokenMask().only_token() == -1);
  CHECK(mask_of(70, {}).empty() && mask_of(70, {}).only_token() == -1);
  for (const Token token : {0, 31, 32, 63, 64, 69}) CHECK(mask_of(70, {token}).only_token() == token);
  CHECK(mask_of(70, {3, 4}).only_token() == -1 && mask_of(70, {3, 68}).only_token() == -1);
}

TEST(bits_past_the_vocabulary_do_not_count) {
  CHECK(mask_of(35, {34, 35, 60}).only_token() == 34);
  CHECK(mask_of(35, {35, 60}).empty());
}

TEST(a_filled_mask_can_be_filled_again) {
  TokenMask mask = mask_of(70, {5, 60});
  mask.fill(40, [](std::uint32_t* words) { words[1] = 1; });
  CHECK(mask.only_token() == 32 && !mask.contains(5) && !mask.contains(60));
}

TEST(the_state_follows_drafts_and_their_replacements) {
  ConstraintState state(std::make_unique<toy::Constraint>(4, same_or_next), 2);
  const Text prompt = {9, 9};  // not read
  CHECK(allowed_after(state, {9, 9}) == Text({0, 1, 2, 3}));
  CHECK(allowed_after(state, {9, 9, 1}) == Text({1, 2}));
  CHECK(allowed_after(state, {9, 9, 1, 2}) == Text({2, 3}));
  CHECK(allowed_after(state, {9, 9, 1, 2, 3}) == Text({0, 3}));
  CHECK(allowed_after(state, {9, 9, 1}) == Text({1, 2}));        // an earlier place
  CHECK(allowed_after(state, {9, 9, 1, 1, 1}) == Text({1, 2}));  // other tokens at the same places
  CHECK(allowed_after(state, {9, 9, 3, 0}) == Text({0, 1}));
  CHECK(allowed_after(state, prompt) == Text({0, 1, 2, 3}));
}

// The mask after {1, 2} is kept for a place at which {1, 1, 1} then has another token.
TEST(no_mask_outlives_the_tokens_before_it) {
  ConstraintState state(std::make_unique<toy::Constraint>(4, same_or_next), 0);
  CHECK(allowed_after(state, {1}) == Text({1, 2}));
  CHECK(allowed_after(state, {1, 2}) == Text({2, 3}));
  CHECK(allowed_after(state, {1, 2, 3}) == Text({0, 3}));
  CHECK(allowed_after(state, {1, 1, 1, 1}) == Text({1, 2}));
  CHECK(allowed_after(state, {1, 1}) == Text({1, 2}));
  CHECK(allowed_after(state, {1, 1, 1}) == Text({1, 2}));
}

TEST(masks_before_a_replaced_token_are_kept) {
  auto constraint = std::make_unique<toy::Constraint>(4, same_or_next);
  const toy::Constraint& counted = *constraint;
  ConstraintState state(std::move(constraint), 0);
  const Text tokens = {1, 2, 2};
  for (int length = 0; length <= 3; ++length) state.mask(tokens.data(), length);
  CHECK(counted.num_masks == 4);
  CHECK(allowed_after(state, {1, 1}) == Text({1, 2}));  // replaces the second token
  CHECK(allowed_after(state, {1}) == Text({1, 2}));
  CHECK(counted.num_masks == 5);
}

TEST(nothing_follows_a_token_that_breaks_the_constraint) {
  ConstraintState state(std::make_unique<toy::Constraint>(4, same_or_next), 0);
  CHECK(allowed_after(state, {0, 2}).empty());
  CHECK(allowed_after(state, {0, 2, 2}).empty());
  CHECK(state.failure().empty());
  CHECK(allowed_after(state, {0, 1}) == Text({1, 2}));  // the state is as before
}

TEST(the_masks_of_a_cycle_are_computed_once) {
  auto constraint = std::make_unique<toy::Constraint>(4, same_or_next);
  const toy::Constraint& counted = *constraint;
  ConstraintState state(std::move(constraint), 0);
  const Text tokens(64, 1);
  for (int round = 0; round < 3; ++round) {  // drafting, then verifying
    for (int length = 0; length <= 64; ++length) CHECK(state.mask(tokens.data(), length).contains(1));
  }
  CHECK(counted.num_masks == 65);
  const Text longer(300, 1);  // more places than are kept
  for (int length = 0; length <= 300; length += 100) CHECK(!state.mask(longer.data(), length).empty());
  for (int length = 300; length >= 0; length -= 100) CHECK(!state.mask(longer.data(), length).empty());
}

TEST(a_failure_is_kept_and_leaves_nothing) {
  auto constraint = std::make_unique<toy::Constraint>(4, same_or_next);
  toy::Constraint& broken = *constraint;
  ConstraintState state(std::move(constraint), 0);
  CHECK(!allowed_after(state, {1}).empty());
  broken.fails = true;
  CHECK(allowed_after(state, {1, 2}).empty());
  CHECK(state.failure() == "the constraint failed: out of order");
  broken.fails = false;
  CHECK(allowed_after(state, {1}).empty());
}

TEST_MAIN()
