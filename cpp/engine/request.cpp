#include "engine/request.h"

#include <stdexcept>

namespace specdec {

void check_range(const char* name, long long value, long long low, long long high) {
  if (value >= low && value <= high) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must be between " + std::to_string(low) + " and " +
                              std::to_string(high));
}

void check_num_draft_tokens(int value) {
  if (value != auto_draft_tokens) check_range("num_draft_tokens", value, 0, max_draft_tokens);
}

std::optional<Verification> verification_named(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (name == "token") return Verification::token;
  if (name == "block") return Verification::block;
  if (name == "invariant") return Verification::invariant;
  throw std::invalid_argument("verification is \"" + name + "\"; it must be auto, token, block or invariant");
}

Drafting drafting_named(const std::string& name) {
  if (name == "sampled") return Drafting::sampled;
  if (name == "argmax") return Drafting::argmax;
  throw std::invalid_argument("drafting is \"" + name + "\"; it must be sampled or argmax");
}

const char* name(Verification verification) {
  switch (verification) {
    case Verification::token:
      return "token";
    case Verification::invariant:
      return "invariant";
    default:
      return "block";
  }
}

const char* name(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    default:
      return "stop";
  }
}

void Request::validate() const {
  sampling.validate();
  if (max_tokens < 0) throw std::invalid_argument("max_tokens is " + std::to_string(max_tokens) + "; it must be 0 or more");
  if (num_draft_tokens) check_num_draft_tokens(*num_draft_tokens);
  if (prompt.empty() && prompt_tokens.empty()) throw std::invalid_argument("the prompt is empty; give at least one character or token");
}

Verification Request::verification_for(int k) const {
  return verification.value_or(seed && k == auto_draft_tokens ? Verification::invariant : Verification::block);
}

}  // namespace specdec
