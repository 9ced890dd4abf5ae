#include "engine/request.h"

#include <algorithm>
#include <stdexcept>

#include "engine/request_options.h"

namespace specdec {

std::optional<Verification> verification_named(const std::string& name) {
  if (name == "token") return Verification::token;
  if (name == "block") return Verification::block;
  if (name == "invariant") return Verification::invariant;
  return std::nullopt;
}

Drafting drafting_named(const std::string& name) { return name == "argmax" ? Drafting::argmax : Drafting::sampled; }

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

const char* name(Drafting drafting) { return drafting == Drafting::argmax ? "argmax" : "sampled"; }

const char* name(DraftOrigin origin) {
  switch (origin) {
    case DraftOrigin::model:
      return "model";
    case DraftOrigin::suffix:
      return "suffix";
    case DraftOrigin::ngram:
      return "ngram";
    case DraftOrigin::prediction:
      return "prediction";
    case DraftOrigin::constraint:
      return "constraint";
    default:
      return "";
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

void Request::set_prompt(Text text) {
  prompt_tokens = std::move(text.tokens);
  pictures = std::move(text.pictures);
}

const char* Request::constraint() const {
  return grammar          ? "grammar"
         : json_schema    ? "json_schema"
         : regex          ? "regex"
         : choice         ? "choice"
         : structural_tag ? "structural_tag"
                          : nullptr;
}

void Request::drop_constraint() {
  grammar.reset();
  json_schema.reset();
  ignored_keywords.reset();
  regex.reset();
  choice.reset();
  structural_tag.reset();
}

void Request::validate() const {
  option::check(request_options(), *this);
  if (grammar.has_value() + json_schema.has_value() + regex.has_value() + choice.has_value() +
          structural_tag.has_value() >
      1) {
    const char* const other = structural_tag ? "structural_tag" : choice ? "choice" : regex ? "regex" : "json_schema";
    throw ArgumentError(constraint(), std::string("is given with ") + other + "; at most one of them can be");
  }
  if (choice && (choice->empty() || std::find(choice->begin(), choice->end(), "") != choice->end()))
    throw ArgumentError("choice", "must have at least one text, and no empty one");
  if (prompt.empty() && prompt_tokens.empty())
    throw std::invalid_argument("the prompt is empty; give at least one character or token");
}

Verification Request::verification_in_use() const {
  return verification.value_or(seed ? Verification::invariant : Verification::block);
}

}  // namespace specdec
