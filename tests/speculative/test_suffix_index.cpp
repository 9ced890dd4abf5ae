// The suffix index against a search of the whole text, and after tokens are dropped against a new index.
#include <algorithm>
#include <map>
#include <vector>

#include "check.h"
#include "simulated_decoding.h"
#include "speculative/suffix_index.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

struct Expected {
  int length = 0;  // of the match
  SuffixIndex::Continuation best;
};

// Looks at every position of the text, for every length.
Expected search(const Tokens& text, const Tokens& context) {
  const int most = std::min(static_cast<int>(context.size()), SuffixIndex::max_depth - 1);
  for (int length = most; length > 0; --length) {
    std::map<Token, std::pair<int, int>> found;  // count, first position
    int followed = 0;
    for (int start = 0; start + length <= static_cast<int>(text.size()); ++start) {
      if (!std::equal(context.end() - length, context.end(), text.begin() + start)) continue;
      if (start + length == static_cast<int>(text.size())) continue;
      ++followed;
      const auto place = found.try_emplace(text[static_cast<std::size_t>(start + length)], 0, start).first;
      ++place->second.first;
    }
    if (found.empty()) continue;
    const auto best =
        std::max_element(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return {length, {best->first, best->second.first, followed}};
  }
  return {};
}

bool same(const SuffixIndex::Continuation& a, const SuffixIndex::Continuation& b) {
  return a.token == b.token && a.count == b.count && a.of == b.of;
}

bool finds_as_expected(const SuffixIndex& index, const Tokens& text, const Tokens& context) {
  const Expected expected = search(text, context);
  const SuffixIndex::Match match = index.find(context.data(), static_cast<int>(context.size()));
  return match.length == expected.length && same(index.best(match), expected.best);
}

SuffixIndex index_of(const Tokens& text) {
  SuffixIndex index;
  for (const Token token : text) index.push(token);
  return index;
}

// Texts of few tokens, so that much repeats; `copying` of the time a part of the text follows again.
class Writer {
 public:
  Writer(int vocabulary, double copying, std::uint64_t seed)
      : vocabulary_(vocabulary), copying_(copying), random_(seed) {}
  Token next(const Tokens& text) {
    if (left_ == 0 && !text.empty() && random_() < copying_) from_ = below(text.size()), left_ = 1 + below(60);
    if (left_ > 0 && from_ < text.size()) return --left_, text[from_++];
    left_ = 0;
    return static_cast<Token>(below(static_cast<std::size_t>(vocabulary_)));
  }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() * static_cast<double>(limit)); }

 private:
  int vocabulary_;
  double copying_;
  simulated::Random random_;
  std::size_t from_ = 0, left_ = 0;
};

Tokens suffix(const Tokens& text, std::size_t count) {
  return {text.end() - static_cast<std::ptrdiff_t>(std::min(count, text.size())), text.end()};
}

template <class Check>
void with_every_writer(Check check) {
  for (const int vocabulary : {1, 2, 3, 20}) {
    for (const double copying : {0.0, 0.05, 0.3}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed)
        check(Writer(vocabulary, copying, 97 * seed + static_cast<std::uint64_t>(vocabulary)));
    }
  }
}

}  // namespace

TEST(the_best_continuation_is_the_most_frequent_one_after_the_longest_match) {
  const Tokens text = {1, 2, 7, 1, 2, 8, 1, 2, 7, 3, 1, 2};
  const SuffixIndex index = index_of(text);
  const SuffixIndex::Match match = index.find(text.data(), static_cast<int>(text.size()));
  CHECK(match.length == 2);
  CHECK(same(index.best(match), {7, 2, 3, {}}));  // twice 7, once 8
  const SuffixIndex::Match longer = index.best(match).longer;
  CHECK(longer.length == 3 && index.best(longer).count == 1);
  CHECK(index.best(longer).token == 3);  // of 1 and 3, each once, the later
}

TEST(finds_what_a_search_of_the_whole_text_finds) {
  with_every_writer([](Writer writer) {
    Tokens text;
    SuffixIndex index;
    for (int i = 0; i < 260; ++i) {
      text.push_back(writer.next(text));
      index.push(text.back());
      CHECK(finds_as_expected(index, text, text));
    }
    Tokens other;
    for (int i = 0; i < 200; ++i) {  // contexts that are not the text's end, or do not occur
      const std::size_t begin = writer.below(text.size()), count = writer.below(50);
      other.assign(text.begin() + static_cast<std::ptrdiff_t>(begin),
                   text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), begin + count)));
      if (i % 2 == 0) other.insert(other.begin(), static_cast<Token>(i % 3));
      if (i % 5 == 0) other.push_back(static_cast<Token>(i % 4));
      CHECK(finds_as_expected(index, text, other));
    }
  });
}

// Step by step along the best continuations: a step leads to what the longer context is found at.
TEST(an_advanced_match_is_that_of_the_longer_context) {
  with_every_writer([](Writer writer) {
    Tokens text;
    while (text.size() < 300) text.push_back(writer.next(text));
    const SuffixIndex index = index_of(text);
    for (std::size_t length = 1; length < 20; ++length) {
      Tokens context = suffix(text, length);
      SuffixIndex::Match match = index.find(context.data(), static_cast<int>(context.size()));
      if (match.length < static_cast<int>(context.size())) continue;
      for (; match.length + 1 < SuffixIndex::max_depth; match = index.best(match).longer) {
        const SuffixIndex::Continuation next = index.best(match);
        CHECK(match.length > static_cast<int>(search(text, context).length) || same(next, search(text, context).best));
        if (next.token < 0) break;
        context.push_back(next.token);
      }
    }
  });
}

TEST(dropped_tokens_leave_no_trace) {
  with_every_writer([](Writer writer) {
    Tokens text;
    SuffixIndex index;
    for (int round = 0; round < 60; ++round) {
      for (std::size_t more = writer.below(80); more > 0; --more) {
        text.push_back(writer.next(text));
        index.push(text.back());
      }
      const std::size_t dropped = writer.below(round % 4 == 0 ? text.size() + 1 : 12);
      text.resize(text.size() - std::min(text.size(), dropped));
      index.truncate(static_cast<int>(text.size()));
      index.truncate(static_cast<int>(text.size()) + 5);  // nothing to drop
      CHECK(index.length() == static_cast<int>(text.size()));
      const SuffixIndex anew = index_of(text);
      CHECK(index.num_nodes() == anew.num_nodes());
      for (std::size_t end = 0; end <= text.size(); end += 1 + writer.below(3)) {
        for (const std::size_t length : {std::size_t{1}, std::size_t{2}, 1 + writer.below(35)}) {
          const Tokens context = suffix(Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end)), length);
          const auto count = static_cast<int>(context.size());
          const SuffixIndex::Match a = index.find(context.data(), count), b = anew.find(context.data(), count);
          CHECK(a.length == b.length && same(index.best(a), anew.best(b)));
        }
      }
      CHECK(text.empty() || finds_as_expected(index, text, text));
    }
    index.truncate(0);
    CHECK(index.num_nodes() == 1);
  });
}

// The worst text repeats everything, but nothing a third time.
TEST(memory_is_bounded) {
  simulated::Random random(1);
  Tokens text;
  while (text.size() < 20000) text.push_back(static_cast<Token>(1e5 * random()));
  text.insert(text.end(), text.begin(), text.end());
  const SuffixIndex index = index_of(text);
  CHECK(index.num_nodes() <= text.size() * (SuffixIndex::max_depth / 2 + 1) + 1);
  CHECK(index.num_nodes() > text.size() * 10);
  CHECK(index.bytes() <= text.size() * 1500);
}

TEST_MAIN()
