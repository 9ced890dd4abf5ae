// The limit of reasoning: where it begins, what ends it, together with another constraint, and rolled back.
#include <string>
#include <vector>

#include "check.h"
#include "constraints/reasoning_budget.h"
#include "toy_constraint.h"

namespace {

using namespace specdec;

const std::vector<std::string> pieces = {"<", "think>", "a", "</", "think>x", "</think>", "\n", "b", ">"};
enum : Token { less, think, a, less_slash, think_x, close, line, b, greater };
constexpr std::uint32_t all = (1u << 9) - 1;

std::unique_ptr<sampling::Constraint> limited(int num_tokens, bool is_open,
                                              std::unique_ptr<sampling::Constraint> other = nullptr) {
  const ReasoningBudget budget{num_tokens, "<think>", "</think>", {close}, is_open};
  return limited_reasoning(std::move(other), budget, static_cast<int>(pieces.size()),
                           [](Token token) { return pieces[static_cast<std::size_t>(token)]; });
}

// What may follow the tokens.
std::uint32_t allowed(sampling::Constraint& constraint, const std::vector<Token>& tokens) {
  constraint.truncate(0);
  for (const Token token : tokens) CHECK(constraint.advance(token));
  std::uint32_t word = 0;
  constraint.write_mask(&word);
  return word & all;
}

}  // namespace

TEST(reasoning_that_the_output_begins) {
  const auto constraint = limited(2, false);
  CHECK(allowed(*constraint, {}) == all);
  CHECK(allowed(*constraint, {line, less, think}) == all);  // the mark comes in pieces, after white space
  CHECK(allowed(*constraint, {line, less, think, a}) == all);
  CHECK(allowed(*constraint, {line, less, think, a, a}) == 1u << close);
  CHECK(!constraint->advance(a) && constraint->advance(close));
  CHECK(allowed(*constraint, {less, think, a, a, close, a, a, a}) == all);
  CHECK(allowed(*constraint, {a, less, think, a, a, a}) == all);  // no reasoning: it begins with other text
  CHECK(allowed(*constraint, {less, think, less_slash, think_x, a, a}) == all);  // it ended by itself, within a piece
}

TEST(reasoning_that_the_prompt_begins) {
  const auto constraint = limited(1, true);
  CHECK(allowed(*constraint, {}) == all && allowed(*constraint, {a}) == 1u << close);
  CHECK(allowed(*constraint, {a, close, b}) == all);
  CHECK(allowed(*limited(0, true), {}) == 1u << close);
}

TEST(an_ending_of_several_tokens) {
  const ReasoningBudget budget{1, "<think>", "</think>", {less_slash, think}, true};
  const auto constraint = limited_reasoning(nullptr, budget, static_cast<int>(pieces.size()),
                                            [](Token token) { return pieces[static_cast<std::size_t>(token)]; });
  CHECK(allowed(*constraint, {a}) == 1u << less_slash);
  CHECK(allowed(*constraint, {a, less_slash}) == 1u << think);
  CHECK(allowed(*constraint, {a, less_slash, think}) == all);
  CHECK(allowed(*constraint, {a}) == 1u << less_slash);  // rolled back
}

TEST(together_with_another_constraint) {
  const auto constraint = limited(1, true, std::make_unique<toy::Constraint>(9, [](const std::vector<Token>& output) {
                                    return output.size() < 3 ? 1u << a | 1u << close : 1u << b;
                                  }));
  CHECK(allowed(*constraint, {}) == (1u << a | 1u << close));
  CHECK(allowed(*constraint, {a}) == 1u << close);
  CHECK(allowed(*constraint, {a, close}) == (1u << a | 1u << close));
  CHECK(allowed(*constraint, {a, close, a}) == 1u << b);
}

TEST_MAIN()
