// Long prompts: too long ones are rejected before all of them is tokenized, others have the tokens of the whole text.
#include <functional>
#include <string>

#include "base/error.h"
#include "check.h"
#include "engine/prompt.h"
#include "llama/model.h"

using namespace specdec;

namespace {

const Vocabulary& vocabulary() {
  static const Model model(MODELS "stdlib-target-f16.gguf");
  static const Vocabulary vocabulary = model.vocabulary();
  return vocabulary;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Counts how often it is asked; true from the `stop`th time on.
struct Asked {
  int stop = 1 << 30, times = 0;
  bool operator()() { return ++times >= stop; }
};

}  // namespace

TEST(a_text_that_cannot_fit_is_not_tokenized_at_all) {
  Asked asked;
  CHECK_THROWS(tokenize_prompt(vocabulary(), repeated("x ", 500000), 1000, std::ref(asked)), ContextFull,
               "tokens, the context holds 1000");
  CHECK_THROWS(tokenize_prompt(vocabulary(), repeated("x ", 500000), 1000, nullptr), ContextFull,
               "the prompt has at least ");
  CHECK(asked.times == 0);
}

TEST(the_bound_by_bytes_is_a_lower_one) {
  for (const std::string& text :
       {repeated(" ", 1000), repeated("self.", 300), repeated("x ", 100), std::string("\n\n\n\t")}) {
    CHECK(vocabulary().min_tokens(text.size()) >= 1);
    CHECK(vocabulary().min_tokens(text.size()) <= vocabulary().tokenize(text).size());
  }
}

TEST(of_a_text_that_is_much_too_long_only_the_beginning_is_tokenized) {
  Asked asked;
  const std::string text = repeated("x ", 500000);  // 1 MB, of which 64 KiB have 32,768 tokens
  CHECK_THROWS(tokenize_prompt(vocabulary(), text, 20000, std::ref(asked)), ContextFull, "the prompt has at least 2");
  CHECK(asked.times == 2);  // before and after the first step
}

TEST(a_long_text_that_fits_has_the_tokens_of_the_whole) {
  std::string text = "\xC3";  // so that a step ends inside a character
  text += "\xA9 ";
  for (int i = 0; text.size() < 150000; ++i) text += "na\xC3\xAFve_" + std::to_string(i * i) + " =  \xE2\x82\xAC\n";
  const std::vector<Token> expected = vocabulary().tokenize(text);
  const int count = static_cast<int>(expected.size());
  for (const int n_ctx : {count, count + 1, 10 * count})
    CHECK(tokenize_prompt(vocabulary(), text, n_ctx, nullptr) == expected);
  CHECK_THROWS(tokenize_prompt(vocabulary(), text, count - 1, nullptr), ContextFull, " tokens, the context holds ");
}

TEST(cancellation_is_heard_between_steps) {
  const std::string text = repeated("x ", 500000);
  for (const int stop : {1, 3, 6}) {  // before the first step, further on, after the last
    Asked asked{stop};
    CHECK_THROWS(tokenize_prompt(vocabulary(), text, 600000, std::ref(asked)), Cancelled,
                 "the prompt was not tokenized");
    CHECK(asked.times == stop);
  }
  Asked asked{1};
  CHECK(tokenize_prompt(vocabulary(), "short", 10, std::ref(asked)).size() < 10);
  CHECK(asked.times == 0);
}

TEST_MAIN()
