// Masks against a plain recogniser: over random grammars, regular expressions and vocabularies, at every step and after
// every rollback, for every token. `test_masks SEED NUMBER` runs another sample.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/index.h"
#include "check.h"
#include "constraints/constraint_compiler.h"

namespace {

using namespace specdec;

struct Random {
  std::mt19937 engine;
  int below(int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); }
  bool once_in(int n) { return below(n) == 0; }
};

// Symbols from 0 are sets of bytes; -1 - r is rule r. A rule has alternatives.
struct Grammar {
  using Sequence = std::vector<int>;
  std::vector<std::set<unsigned char>> sets;
  std::vector<std::vector<Sequence>> rules;
};

// All ways to go on from what was read, as stacks of symbols with the next one last. Sets of bytes are on top.
class Recogniser {
 public:
  explicit Recogniser(const Grammar& grammar) : grammar_(&grammar) { add({-1}); }

  bool accepts() const { return stacks_.count({}) != 0; }
  bool is_dead() const { return stacks_.empty(); }
  bool is_slow() const { return stacks_.size() > 1000; }
  Recogniser after(const std::string& bytes) const {
    Recogniser at = *this;
    for (const char byte : bytes) {
      std::set<std::vector<int>> stacks;
      std::swap(stacks, at.stacks_);
      at.seen_.clear();
      for (const std::vector<int>& stack : stacks) {
        if (stack.empty() || grammar_->sets[idx(stack.back())].count(static_cast<unsigned char>(byte)) == 0) continue;
        at.add({stack.begin(), stack.end() - 1});
      }
    }
    return at;
  }

 private:
  void add(std::vector<int> stack) {
    if (!seen_.insert(stack).second) return;
    if (stack.empty() || stack.back() >= 0) {
      stacks_.insert(std::move(stack));
      return;
    }
    const int rule = -1 - stack.back();
    stack.pop_back();
    for (const Grammar::Sequence& sequence : grammar_->rules[idx(rule)]) {
      std::vector<int> next = stack;
      next.insert(next.end(), sequence.rbegin(), sequence.rend());
      add(std::move(next));
    }
  }

  const Grammar* grammar_;
  std::set<std::vector<int>> stacks_, seen_;
};

constexpr const char* letters[] = {"a", "b", "g", "e", "r", ".", "\xc3\xa4", "\xe2\x82\xac"};

// A random grammar twice: for the recogniser, and as a text.
class Maker {
 public:
  Maker(Random& random, bool is_regex) : random_(random), is_regex_(is_regex) {}

  std::string make() {
    const int num_rules = is_regex_ ? 1 : 1 + random_.below(4);
    grammar.rules.resize(idx(num_rules));
    num_named_ = num_rules;
    std::string text;
    for (int rule = 0; rule < num_rules; ++rule) {
      rule_ = rule;
      std::vector<Grammar::Sequence> made;
      const std::string body = alternatives(1 + random_.below(3), made, true);
      grammar.rules[idx(rule)] = made;
      text += (rule > 0 ? "\n" : "") + (is_regex_ ? body : name(rule) + " ::= " + body);
    }
    return text;
  }

  Grammar grammar;

 private:
  static std::string name(int rule) { return rule == 0 ? "root" : "r" + std::to_string(rule); }

  std::string alternatives(int depth, std::vector<Grammar::Sequence>& out, bool is_rule = false) {
    std::string text;
    for (int i = 0, number = 1 + random_.below(3); i < number; ++i) {
      Grammar::Sequence sequence;
      // The first alternative of a rule can end.
      if (is_rule) may_recur_ = i > 0;
      const std::string part = sequence_of(depth, sequence);
      text += (i > 0 ? (is_regex_ ? "|" : " | ") : "") + part;
      out.push_back(std::move(sequence));
    }
    return text;
  }

  std::string sequence_of(int depth, Grammar::Sequence& out) {
    std::string text;
    for (int i = 0, number = 1 + random_.below(4); i < number; ++i) {
      std::vector<int> part;
      std::string piece = part_of(depth, part);
      const bool is_counted = random_.once_in(3);
      if (!is_counted) {
        out.insert(out.end(), part.begin(), part.end());
      } else {
        static const std::pair<const char*, std::pair<int, int>> counts[] = {
            {"*", {0, -1}},    {"+", {1, -1}},    {"?", {0, 1}},    {"{2}", {2, 2}},
            {"{1,3}", {1, 3}}, {"{2,}", {2, -1}}, {"{0,2}", {0, 2}}};
        const auto& [sign, bounds] = counts[random_.below(7)];
        piece += sign;
        for (int j = 0; j < bounds.first; ++j) out.insert(out.end(), part.begin(), part.end());
        if (bounds.second < 0) {
          const int loop = rule_of({});
          grammar.rules[idx(-1 - loop)] = {{}, part};
          grammar.rules[idx(-1 - loop)][1].push_back(loop);
          out.push_back(loop);
        }
        int rest = rule_of({{}});
        for (int j = bounds.first; j < bounds.second; ++j) {
          Grammar::Sequence more = part;
          more.push_back(rest);
          rest = rule_of({{}, more});
        }
        if (bounds.second > bounds.first) out.push_back(rest);
      }
      text += (text.empty() || is_regex_ ? "" : " ") + piece;
    }
    return text;
  }

  int rule_of(std::vector<Grammar::Sequence> alternatives) {
    grammar.rules.push_back(std::move(alternatives));
    return -static_cast<int>(grammar.rules.size());
  }

  void add_byte(unsigned char byte, std::vector<int>& out) {
    out.push_back(static_cast<int>(grammar.sets.size()));
    grammar.sets.push_back({byte});
  }

  std::string part_of(int depth, std::vector<int>& out) {
    const int kind = random_.below(10);
    if (kind < 2 && depth > 0) {
      std::vector<Grammar::Sequence> inside;
      const std::string text = alternatives(depth - 1, inside);
      out.push_back(rule_of(std::move(inside)));
      return "(" + text + ")";
    }
    if (kind == 2) {
      const char first = static_cast<char>('a' + random_.below(5)), last = static_cast<char>(first + random_.below(5));
      out.push_back(static_cast<int>(grammar.sets.size()));
      grammar.sets.emplace_back();
      for (char c = first; c <= last; ++c) grammar.sets.back().insert(static_cast<unsigned char>(c));
      return std::string("[") + first + "-" + last + "]";
    }
    if (kind == 4) {  // any character of UTF-8, or all but two
      using Bytes = std::vector<std::pair<int, int>>;
      static const std::vector<Bytes> forms = {{{1, 0x7F}},
                                               {{0xC2, 0xDF}, {0x80, 0xBF}},
                                               {{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
                                               {{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
                                               {{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
                                               {{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
                                               {{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
                                               {{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
                                               {{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}}};
      const bool is_any = random_.once_in(2);
      std::vector<Grammar::Sequence> ways;
      for (const Bytes& form : forms) {
        ways.emplace_back();
        for (const auto& [first, last] : form) {
          ways.back().push_back(static_cast<int>(grammar.sets.size()));
          grammar.sets.emplace_back();
          for (int byte = first; byte <= last; ++byte) {
            if (is_any || (byte != 'a' && byte != 'g')) grammar.sets.back().insert(static_cast<unsigned char>(byte));
          }
        }
      }
      out.push_back(rule_of(std::move(ways)));
      return is_any ? "." : "[^ag]";
    }
    if (kind == 3 && !is_regex_) {
      // Rules of higher numbers, or any behind a character, so that no rule begins with itself.
      const int lowest = may_recur_ ? 0 : rule_ + 1;
      if (lowest < num_named_) {
        const int rule = lowest + random_.below(num_named_ - lowest);
        if (rule <= rule_) {
          add_byte('a', out);
          out.push_back(-1 - rule);
          return "(\"a\" " + name(rule) + ")";
        }
        out.push_back(-1 - rule);
        return name(rule);
      }
    }
    std::string text;
    for (int i = 0, number = 1 + random_.below(3); i < number; ++i) {
      const std::string letter = letters[random_.below(8)];
      for (const char byte : letter) add_byte(static_cast<unsigned char>(byte), out);
      text += is_regex_ && letter == "." ? "[.]" : letter;
    }
    return is_regex_ ? "(?:" + text + ")" : "\"" + text + "\"";
  }

  Random& random_;
  const bool is_regex_;
  bool may_recur_ = true;
  int rule_ = 0, num_named_ = 0;
};

std::vector<std::string> vocabulary(Random& random) {
  std::vector<std::string> pieces;
  for (const char* letter : letters) {
    for (const char* byte = letter; *byte != '\0'; ++byte) pieces.emplace_back(1, *byte);
  }
  for (int i = 0; i < 60; ++i) {
    std::string piece;
    for (int j = 0, length = 1 + random.below(5); j < length; ++j) piece += letters[random.below(8)];
    if (piece.size() > 1 && random.once_in(6)) piece.pop_back();
    pieces.push_back(piece);
  }
  pieces.emplace_back();  // a control token
  for (const char* end : {"</s>", ""}) pieces.emplace_back(end);
  std::rotate(pieces.begin(), pieces.begin() + random.below(20), pieces.end() - 3);
  return pieces;
}

// Throws if a mask differs, or what advance() takes.
void check_steps(sampling::Constraint& constraint, const Grammar& grammar, const std::vector<std::string>& pieces,
                 Random& random, const std::string& text) {
  const auto size = static_cast<int>(pieces.size()), end = size - 2, control = size - 3;
  std::vector<Recogniser> states = {Recogniser(grammar)};
  std::string output;
  for (int step = 0; step < 12; ++step) {
    sampling::TokenMask mask;
    mask.fill(constraint.vocabulary_size(), [&](std::uint32_t* words) { constraint.write_mask(words); });
    std::vector<Token> allowed;
    for (Token token = 0; token < size; ++token) {
      const bool is_right = token >= end       ? states.back().accepts()
                            : token == control ? false
                                               : !states.back().after(pieces[idx(token)]).is_dead();
      if (mask.contains(token) != is_right) {
        throw std::runtime_error(text + "\nafter '" + output + "', token '" + pieces[idx(token)] + "' (" +
                                 std::to_string(token) + ") is " + (is_right ? "refused" : "allowed"));
      }
      if (is_right && token < end) allowed.push_back(token);
    }
    for (int i = 0; i < 3; ++i) {
      const Token token = random.below(size - 2);
      if (!mask.contains(token) && constraint.advance(token)) throw std::runtime_error(text + ": took a refused token");
    }
    const auto length = static_cast<int>(states.size()) - 1;
    if (length > 0 && (random.once_in(4) || allowed.empty())) {
      const int back = random.below(length);
      if (mask.contains(end) && random.once_in(2)) CHECK(constraint.advance(end));
      constraint.truncate(back);
      states.resize(idx(back) + 1, Recogniser(grammar));
      output += "<" + std::to_string(back) + ">";
      continue;
    }
    if (allowed.empty() || states.back().is_slow()) return;
    const Token token = allowed[idx(random.below(static_cast<int>(allowed.size())))];
    CHECK(constraint.advance(token));
    states.push_back(states.back().after(pieces[idx(token)]));
    output += pieces[idx(token)];
  }
}

int num_checked = 0;

void check_random(unsigned seed, int number) {
  for (int i = 0; i < number; ++i) {
    Random random{std::mt19937(seed + static_cast<unsigned>(i))};
    const bool is_regex = (seed + static_cast<unsigned>(i)) % 3 == 0;
    Maker maker(random, is_regex);
    const std::string text = maker.make();
    const std::vector<std::string> pieces = vocabulary(random);
    const auto size = static_cast<Token>(pieces.size());
    const ConstraintCompiler compiler(pieces, {size - 2, size - 1});
    std::unique_ptr<sampling::Constraint> constraint;
    try {
      constraint = is_regex ? compiler.regex(text) : compiler.grammar(text);
    } catch (const std::invalid_argument& error) {
      if (std::string(error.what()).find("too many states") == std::string::npos) throw;
      continue;
    }
    for (int walk = 0; walk < 3; ++walk) {
      constraint->truncate(0);
      check_steps(*constraint, maker.grammar, pieces, random,
                  "seed " + std::to_string(seed + static_cast<unsigned>(i)) + ": " + text);
    }
    ++num_checked;
  }
}

// The mask that a constraint has at first, for these tokens and an end.
std::vector<bool> first_mask(const std::string& text, std::vector<std::string> pieces, bool is_regex) {
  pieces.emplace_back();
  const auto end = static_cast<Token>(pieces.size() - 1);
  const ConstraintCompiler compiler(pieces, {end});
  const auto constraint = is_regex ? compiler.regex(text) : compiler.grammar(text);
  sampling::TokenMask mask;
  mask.fill(end + 1, [&](std::uint32_t* words) { constraint->write_mask(words); });
  std::vector<bool> allowed;
  for (Token token = 0; token < end; ++token) allowed.push_back(mask.contains(token));
  return allowed;
}

}  // namespace

// The tokens between a refused one and the next that it is a part of.
TEST(a_token_that_contains_a_refused_one_is_allowed) {
  for (const bool is_regex : {false, true}) {
    const auto grammar = [&](const std::string& regex, const std::string& gbnf) { return is_regex ? regex : gbnf; };
    const std::vector<bool> both = {false, true, true};
    CHECK(first_mask(grammar("gger", "root ::= \"gger\""), {"ger", "gger", "gg"}, is_regex) == both);
    CHECK(first_mask(grammar("(bb)?[.]", "root ::= (\"bb\")? [.]"), {"b.", "bb.", "bb"}, is_regex) == both);
    CHECK(first_mask(grammar("[a-z]{10}", "root ::= [a-z]{10}"), {"abcdefghijk", "babcdefghi", "a"}, is_regex) == both);
  }
}

TEST(masks_are_what_a_plain_recogniser_allows) {
  check_random(1, 600);
  CHECK(num_checked > 590);
}

int main(int count, char** arguments) {
  if (count != 3) return check::run_all();
  try {
    check_random(static_cast<unsigned>(std::atoi(arguments[1])), std::atoi(arguments[2]));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("%d grammars and regular expressions: all masks are right\n", num_checked);
  return 0;
}
