#include "engine/prompt.h"

#include <cstddef>

#include "base/error.h"
#include "base/index.h"

namespace specdec {
namespace {

constexpr std::size_t first_step = 64 << 10;  // bytes; about 0.1 s

// The first `bytes` bytes, or a few fewer so that no UTF-8 character is cut.
std::string prefix(const std::string& text, std::size_t bytes) {
  const auto continues = [&] { return (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80; };
  for (int i = 0; i < 3 && continues(); ++i) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

void fail_prompt_too_long(std::size_t num_tokens, bool is_all, int n_ctx) {
  const std::string count = (is_all ? "" : "at least ") + std::to_string(num_tokens);
  throw ContextFull("the prompt has " + count + " tokens, the context holds " + std::to_string(n_ctx), num_tokens,
                    n_ctx);
}

// Tokenizing cannot be interrupted, and tokenizing in pieces gives other tokens at their borders. So growing prefixes
// are tokenized, only to count their tokens.
std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const MarkedText& prompt, int n_ctx,
                                   const std::function<bool()>& cancelled) {
  const std::string& text = prompt.text;
  const auto room = idx(n_ctx);
  const auto check_cancelled = [&] {
    if (cancelled && cancelled()) throw Cancelled("the prompt was not tokenized to its end");
  };
  const bool is_long = text.size() > first_step;
  if (is_long) {
    const std::size_t least = vocabulary.min_tokens(text.size());
    if (least > room) fail_prompt_too_long(least, false, n_ctx);
  }
  for (std::size_t bytes = first_step; bytes < text.size(); bytes *= 2) {
    check_cancelled();
    // The rest of the text may change the last few of these tokens: the margin covers that many times over.
    const std::size_t margin = room / 4 + 64, count = vocabulary.tokenize(prefix(text, bytes)).size();
    if (count > room + margin) {
      check_cancelled();
      fail_prompt_too_long(count - margin, false, n_ctx);
    }
  }
  if (is_long) check_cancelled();
  std::vector<Token> tokens = vocabulary.tokenize(prompt);
  if (is_long) check_cancelled();
  if (tokens.size() > room) fail_prompt_too_long(tokens.size(), true, n_ctx);
  return tokens;
}

}  // namespace specdec
