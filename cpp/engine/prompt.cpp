#include "engine/prompt.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

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

struct MarkAt {
  std::size_t begin, end;  // in the text
  std::size_t picture;
};

std::vector<MarkAt> marks_in(const std::string& text, const PictureFiles& pictures) {
  std::vector<MarkAt> marks;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const std::string mark = picture_mark(i);
    const std::size_t at = text.find(mark);
    if (at == std::string::npos)
      throw std::invalid_argument(pictures[i]->name + ": the model's chat template leaves this picture out");
    if (text.find(mark, at + mark.size()) != std::string::npos)
      throw std::invalid_argument(pictures[i]->name + ": the model's chat template repeats this picture");
    marks.push_back({at, at + mark.size(), i});
  }
  std::sort(marks.begin(), marks.end(), [](const MarkAt& a, const MarkAt& b) { return a.begin < b.begin; });
  return marks;
}

MarkedText piece_of(const MarkedText& whole, std::size_t begin, std::size_t end) {
  MarkedText piece{whole.text.substr(begin, end - begin), {}};
  for (const auto& [from, to] : whole.input) {
    if (from < end && to > begin) piece.input.emplace_back(std::max(from, begin) - begin, std::min(to, end) - begin);
  }
  return piece;
}

}  // namespace

void check_tokens(const std::string& name, const Text& text, const Range& ids) {
  for (int place = 0; place < text.length(); ++place) {
    const Picture* const picture = picture_from(text.pictures, place);
    if (picture != nullptr && picture->place <= place) place = picture->end() - 1;
    else check_range(name, text.tokens[idx(place)], ids);
  }
}

void fail_prompt_too_long(std::size_t num_tokens, bool is_all, int n_ctx) {
  const std::string count = (is_all ? "" : "at least ") + std::to_string(num_tokens);
  throw ContextFull("the prompt has " + count + " tokens, the context holds " + std::to_string(n_ctx), num_tokens,
                    n_ctx);
}

// Tokenizing cannot be interrupted, and tokenizing in pieces gives other tokens at their borders. So growing prefixes
// are tokenized, only to count their tokens.
std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const MarkedText& prompt, int n_ctx,
                                   const std::function<bool()>& cancelled, Vocabulary::Part part) {
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
  std::vector<Token> tokens = vocabulary.tokenize(prompt, part);
  if (is_long) check_cancelled();
  if (tokens.size() > room) fail_prompt_too_long(tokens.size(), true, n_ctx);
  return tokens;
}

Text read_prompt(const Vocabulary& vocabulary, PictureReader& reader, const MarkedText& prompt,
                 const PictureFiles& pictures, int n_ctx, const std::function<bool()>& cancelled) {
  if (pictures.empty()) return tokenize_prompt(vocabulary, prompt, n_ctx, cancelled);
  const std::vector<MarkAt> marks = marks_in(prompt.text, pictures);
  Text text;
  std::size_t begin = 0;
  const auto add_text = [&](std::size_t end, Vocabulary::Part part) {
    if (end == begin && part == Vocabulary::Part::middle) return;
    const std::vector<Token> more = tokenize_prompt(vocabulary, piece_of(prompt, begin, end), n_ctx, cancelled, part);
    text.tokens.insert(text.tokens.end(), more.begin(), more.end());
  };
  for (const MarkAt& mark : marks) {
    add_text(mark.begin, begin == 0 ? Vocabulary::Part::beginning : Vocabulary::Part::middle);
    const Text picture = reader.read(*pictures[mark.picture]);
    for (Picture one : picture.pictures) {
      one.place += text.length();
      text.pictures.push_back(std::move(one));
    }
    text.tokens.insert(text.tokens.end(), picture.tokens.begin(), picture.tokens.end());
    begin = mark.end;
    if (cancelled && cancelled()) throw Cancelled("the prompt was not read to its end");
  }
  add_text(prompt.text.size(), Vocabulary::Part::middle);
  if (text.length() > n_ctx) fail_prompt_too_long(text.tokens.size(), true, n_ctx);
  return text;
}

}  // namespace specdec
