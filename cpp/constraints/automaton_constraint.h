// Constraints from automata over bytes, without a compiler: the mask of a state is found when it is first needed, by
// one walk over the vocabulary in alphabetical order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "constraints/pattern.h"
#include "sampling/constraint.h"

namespace specdec {

// A vocabulary's tokens in alphabetical order, so that tokens with a common beginning share the work.
struct SortedTokens {
  // Arguments: as ConstraintCompiler's.
  SortedTokens(const std::vector<std::string>& pieces, std::vector<Token> ends);

  struct Entry {
    Token token;
    int common;  // bytes that it shares with the entry before
    int next;    // index of the next entry that does not begin with this one
  };
  std::vector<std::string> pieces;  // by token
  std::vector<Token> ends;
  std::vector<Entry> entries;  // of tokens with bytes that are not ends
};

// The output is a text that the automaton accepts.
std::unique_ptr<sampling::Constraint> automaton_constraint(ByteAutomaton automaton,
                                                           std::shared_ptr<const SortedTokens> tokens);

// The output is what either of the two allows.
std::unique_ptr<sampling::Constraint> either_constraint(std::unique_ptr<sampling::Constraint> one,
                                                        std::unique_ptr<sampling::Constraint> other);

}  // namespace specdec
