// Answers requests of tests/fuzz/schemas.py about JSON schemas, and of tests/fuzz/grammars.py about other constraints,
// a line of JSON each:
//   {"schema": TEXT, "strict": true, "wishes": [TEXT, ...], "walks": 3, "seed": 1}
//   "grammar" or "structural_tag" instead of "schema"
// -> {"error": TEXT}  it was rejected as an invalid argument. "crash": another exception.
//    {"ignored": [POINTER, ...], "seconds": of the processor, to compile it,
//     "walks": [TEXT or null, ...]   outputs that the masks led to, at random; null: it did not end
//     "wishes": [null or INDEX, ...] null: the text may be written; else its first byte that is masked
//     "faults": [TEXT, ...]}         of masks: a dead end, a wrong token
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/argument.h"
#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"
#include "constraints/constraint_compiler.h"
#include "constraints/schema_grammar.h"
#include "constraints/structural_tag.h"

namespace {

using namespace specdec;
using nlohmann::json;

// A token for every byte but 0, by its value; then tokens whose tails are tokens as well, a control token (no bytes)
// and two ends.
struct Vocabulary {
  std::vector<std::string> pieces = {""};
  std::vector<Token> longer;
  Token control, end, other_end;

  Vocabulary() {
    for (int byte = 1; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"{\"",   "\"}",    "\"]",     "\", ",     "\", \"", "\": ", "\": \"",   ", ", ": ",   ", \"", "[\"",
          "[]",    "{}",     "]}",      "}}",       "\"\"",   "tr",   "true",     "ue", "null", "ll",   "10",
          "00",    "000000", "0.",      ".5",       "1.",     "-1",   "e-",       "ab", "abb",  "bb",   "b\"",
          "a\"",   "\\n",    "\\u",     "\\u00",    "\\\"",   "\\\\", "\xc3\xa4", "0,", "0}",   "0]",   "a\", \"b",
          "\": 1", "1, ",    "\": {\"", "\xe2\x82", "\n",     "-0",   "aaaaaaaa"}) {
      longer.push_back(static_cast<Token>(pieces.size()));
      pieces.emplace_back(piece);
    }
    control = static_cast<Token>(pieces.size());
    end = control + 1, other_end = control + 2;
    pieces.resize(pieces.size() + 3);
  }
};

const Vocabulary& vocabulary() {
  static const Vocabulary made;
  return made;
}

class Session {
 public:
  Session(sampling::Constraint& constraint, std::uint64_t seed) : constraint_(constraint), random_(seed) {}

  std::vector<std::string> faults;

  // An output; null: it did not end, or became too ambiguous.
  json walk() {
    return guarded([&] { return walk_on(); });
  }
  // Null: it may be written, as far as is known; else its first byte that is masked.
  json wish(const std::string& text) {
    return guarded([&] { return spell(text); });
  }

 private:
  static constexpr int num_free_steps = 24, max_steps = 400;

  // Of an ambiguous grammar, a few steps are enough.
  bool is_late() const { return std::clock() - begin_ > CLOCKS_PER_SEC / 3; }

  // A constraint that has failed is of no more use.
  template <class Action>
  json guarded(Action&& action) {
    if (has_failed_) return nullptr;
    restart();
    try {
      return action();
    } catch (const Error&) {
      has_failed_ = true;
      return nullptr;
    }
  }

  json walk_on() {
    for (int step = 0; step < max_steps && !is_late(); ++step) {
      const sampling::TokenMask mask = current();
      if (mask.empty()) return fault("a dead end"), nullptr;
      const bool may_end = mask.contains(vocabulary().end);
      if (mask.contains(vocabulary().control)) fault("a control token is allowed");
      if (mask.contains(0)) fault("a token without bytes is allowed");
      if (may_end != mask.contains(vocabulary().other_end)) fault("the ends differ");
      if (may_end && (step > num_free_steps || below(3) == 0)) return text_;
      if (below(8) == 0) check_longer_tokens(mask);
      const Token token = step > num_free_steps ? closing(mask) : any(mask);
      if (token < 0) return text_;
      if (!read(token)) return fault("an allowed token is rejected: " + vocabulary().pieces[idx(token)]), nullptr;
      if (below(12) == 0) go_back();
    }
    return nullptr;
  }

  json spell(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (is_late()) return nullptr;
      const Token token = static_cast<unsigned char>(text[i]);
      const bool is_allowed = current().contains(token);
      const bool is_read = read(token);
      if (is_read != is_allowed) fault("a mask differs from what is read");
      if (!is_read) return i;
    }
    return current().contains(vocabulary().end) ? json() : json(text.size());
  }

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void restart() {
    constraint_.truncate(0);
    tokens_.clear();
    text_.clear();
  }

  sampling::TokenMask current() {
    sampling::TokenMask mask;
    mask.fill(constraint_.vocabulary_size(), [&](std::uint32_t* words) { constraint_.write_mask(words); });
    return mask;
  }

  bool read(Token token) {
    if (!constraint_.advance(token)) return false;
    tokens_.push_back(token);
    text_ += vocabulary().pieces[idx(token)];
    return true;
  }

  void fault(const std::string& what) {
    if (faults.size() < 4) faults.push_back(what + " after " + text_);
  }

  // A longer token is allowed exactly where its bytes are.
  void check_longer_tokens(const sampling::TokenMask& mask) {
    const auto length = static_cast<int>(tokens_.size());
    for (const Token token : vocabulary().longer) {
      bool can_follow = true;
      for (const char byte : vocabulary().pieces[idx(token)]) {
        can_follow = constraint_.advance(static_cast<unsigned char>(byte));
        if (!can_follow) break;
      }
      constraint_.truncate(length);
      if (can_follow != mask.contains(token))
        fault(std::string("token ") + vocabulary().pieces[idx(token)] + (can_follow ? " is masked" : " is not masked"));
    }
  }

  void go_back() {
    const sampling::TokenMask before = current();
    const std::vector<Token> tokens = tokens_;
    const std::size_t length = below(tokens.size() + 1);
    constraint_.truncate(static_cast<int>(length));
    for (std::size_t i = length; i < tokens.size(); ++i) {
      if (!constraint_.advance(tokens[i])) return fault("a token is rejected the second time");
    }
    if (current().words() != before.words()) fault("another mask the second time");
  }

  Token any(const sampling::TokenMask& mask) {
    std::vector<Token> allowed, longer;
    for (Token token = 1; token < vocabulary().control; ++token) {
      if (!mask.contains(token)) continue;
      const bool is_letter = token < 0x80 && token != '\\';
      if (is_letter || below(16) == 0) allowed.push_back(token);
      if (token > 0xff || std::string("\"}],0123456789.-{[:tfn").find(static_cast<char>(token)) != std::string::npos)
        longer.push_back(token);
    }
    const std::vector<Token>& some = allowed.empty() || (!longer.empty() && below(2) == 0) ? longer : allowed;
    if (!some.empty()) return some[below(some.size())];
    for (Token token = 1; token < vocabulary().control; ++token) {
      if (mask.contains(token)) return token;
    }
    return -1;
  }

  // One that leads to an end soon: what closes first, then what is neither a comma nor opens.
  Token closing(const sampling::TokenMask& mask) {
    const auto rank = [](Token token) {
      const char first = vocabulary().pieces[idx(token)].front();
      if (first == '}' || first == ']' || first == '"') return 0;
      if (first == '{' || first == '[' || first == '\\') return 3;
      return first == ',' || first == '-' || token > 0x7f ? 2 : 1;
    };
    std::vector<Token> best;
    for (Token token = 1; token < vocabulary().control; ++token) {
      if (!mask.contains(token)) continue;
      if (!best.empty() && rank(token) < rank(best.front())) best.clear();
      if (best.empty() || rank(token) == rank(best.front())) best.push_back(token);
    }
    return best.empty() ? -1 : best[below(best.size())];
  }

  sampling::Constraint& constraint_;
  std::mt19937_64 random_;
  std::vector<Token> tokens_;
  std::string text_;
  bool has_failed_ = false;
  const std::clock_t begin_ = std::clock();
};

// What compiled() compiles, read by itself, says what it ignores.
std::vector<std::string> ignored(const json& request) {
  SchemaStyle style;
  style.is_strict = request.at("strict");
  if (request.contains("schema")) return schema_grammar(request.at("schema"), style).ignored;
  if (request.contains("structural_tag"))
    return supported_structural_tag(request.at("structural_tag"), style.is_strict).ignored;
  return {};
}

std::unique_ptr<sampling::Constraint> compiled(const ConstraintCompiler& compiler, const json& request) {
  const bool is_strict = request.at("strict");
  if (request.contains("grammar")) return compiler.grammar(request.at("grammar"));
  if (request.contains("structural_tag")) return compiler.structural_tag(request.at("structural_tag"), is_strict);
  return compiler.json_schema(request.at("schema"), is_strict);
}

json answer(const ConstraintCompiler& compiler, const json& request) {
  const std::clock_t begin = std::clock();
  const auto seconds = [&] { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; };
  json reply;
  try {
    const std::unique_ptr<sampling::Constraint> constraint = compiled(compiler, request);
    reply["seconds"] = seconds();
    reply["ignored"] = ignored(request);
    Session session(*constraint, request.at("seed"));
    reply["walks"] = reply["wishes"] = json::array();
    for (const std::string text : request.at("wishes")) reply["wishes"].push_back(session.wish(text));
    for (int i = 0; i < request.at("walks"); ++i) {
      reply["walks"].push_back(session.walk());
      const json& text = reply["walks"].back();
      const bool may_be_any_bytes = request.contains("structural_tag");  // between its parts
      if (text.is_string() && !may_be_any_bytes && valid_utf8(text) != text)
        session.faults.push_back("an output is not UTF-8");
    }
    reply["faults"] = std::move(session.faults);
  } catch (const ArgumentError& error) {
    reply = {{"error", error.what()}, {"seconds", 0.0}};
    reply["seconds"] = seconds();
  } catch (const std::exception& error) {
    reply = {{"crash", error.what()}};
  }
  return reply;
}

}  // namespace

int main() {
  const ConstraintCompiler compiler(vocabulary().pieces, {vocabulary().end, vocabulary().other_end});
  for (std::string line; std::getline(std::cin, line);) {
    const json reply = answer(compiler, json::parse(line));
    std::cout << reply.dump(-1, ' ', true, json::error_handler_t::replace) << '\n' << std::flush;
  }
}
