// Grammars, schemas and regular expressions with random edits: an error or a constraint, whose masks are what it then
// accepts; never a crash.
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "sampling/uniforms.h"
#include "sound_inputs.h"

namespace {

using namespace specdec;
using namespace specdec::constraints;

class Random {
 public:
  explicit Random(std::uint64_t seed) : uniforms_(seed, 0) {}
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(uniforms_.uniform(++count_, 0, sampling::Purpose::next) * static_cast<double>(n));
  }

 private:
  sampling::PhiloxUniforms uniforms_;
  std::int64_t count_ = 0;
};

std::string edited(const std::vector<std::string>& texts, Random& random) {
  const std::string characters = "{}[]()\"\\|*+?.^$,:=-#/ \n0129aexnu_<>%&~";
  std::string text = texts[random.below(texts.size())];
  for (std::size_t edits = random.below(6); edits > 0; --edits) {
    const std::size_t at = random.below(text.size() + 1);
    const std::string& other = texts[random.below(texts.size())];
    switch (random.below(3)) {
      case 0:
        text.insert(at, 1, characters[random.below(characters.size())]);
        break;
      case 1:
        text.erase(at, 1 + random.below(4));
        break;
      default:
        text.insert(at, other.substr(random.below(other.size()), random.below(12)));
    }
  }
  return text;
}

}  // namespace

TEST(edited_inputs_are_errors_or_constraints) {
  int accepted[num_kinds] = {}, rejected[num_kinds] = {};
  Random random(1);
  for (int i = 0; i < 6000; ++i) {
    const auto kind = static_cast<Kind>(i % num_kinds);
    const std::string text = edited(sound_inputs(kind), random);
    try {
      const auto constraint = compiled(kind, text);
      ++accepted[kind];
      walk(*constraint, [&](std::size_t n) { return random.below(n); });
    } catch (const std::invalid_argument&) {
      ++rejected[kind];
    }
  }
  for (const int kind : {grammar, json_schema, regex, structural_tag})
    CHECK(accepted[kind] > 100 && rejected[kind] > 200);
}

// Each byte takes longer than the one before it: the work is bounded.
TEST(an_ambiguous_grammar_fails_before_it_takes_minutes) {
  const auto constraint = compiled(grammar, "root ::= root* (root \"b\" root){0,2} root | \"a\" | \"\"");
  const std::clock_t begin = std::clock();
  int length = 0;
  try {
    for (; length < 10'000; ++length) {
      sampling::TokenMask mask;
      mask.fill(constraint->vocabulary_size(), [&](std::uint32_t* words) { constraint->write_mask(words); });
      CHECK(mask.contains('a' - 1) && constraint->advance('a' - 1));
    }
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("too ambiguous") != std::string::npos);
  }
  CHECK(20 < length && length < 10'000);
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 30);
}

TEST_MAIN()
