// At most so many tokens of reasoning: then the mark that ends it is the only text that may come.
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
  std::vector<Token> ending;  // what the end is written with
  bool is_open = false;  // the prompt has the first mark already; else an output begins with it, or has no reasoning
};

// other: a constraint that the output obeys, too; null: none. piece(token): its bytes, of control tokens their names.
std::unique_ptr<sampling::Constraint> limited_reasoning(std::unique_ptr<sampling::Constraint> other,
                                                        ReasoningBudget budget, int vocabulary_size,
                                                        std::function<std::string(Token)> piece);

}  // namespace specdec
