// Limits the tokens of reasoning: when they are used up, only the mark that ends it may follow.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sampling/constraint.h"

namespace specdec {

struct ReasoningBudget {
  int num_tokens = 0;
  std::string begin, end;     // marks: "<think>", "</think>"
  std::vector<Token> ending;  // the tokens of `end`
  bool is_open = false;       // the prompt has the first mark already; otherwise an output begins with it or has no
                              // reasoning
};

// other: another constraint that the output obeys; null: none. piece(token): the token's bytes, or a control token's
// name.
std::unique_ptr<sampling::Constraint> limited_reasoning(std::unique_ptr<sampling::Constraint> other,
                                                        ReasoningBudget budget, int vocabulary_size,
                                                        std::function<std::string(Token)> piece);

}  // namespace specdec
