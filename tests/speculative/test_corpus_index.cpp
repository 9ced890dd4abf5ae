// The corpus index against a search of the whole text.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "simulated_decoding.h"
#include "speculative/corpus_index.h"
#include "speculative/suffix_proposer.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

struct Expected {
  int length = 0;  // of the match
  std::map<Token, int> counts;
  int of = 0;
};

// Looks at every position of the text, for every length. Nothing is proposed at the end of a document.
Expected search(const Tokens& text, const Tokens& context) {
  const int most = std::min(static_cast<int>(context.size()), CorpusIndex::max_depth - 1);
  for (int length = most; length > 0; --length) {
    Expected found;
    found.length = length;
    for (int start = 0; start + length < static_cast<int>(text.size()); ++start) {
      const Token next = text[static_cast<std::size_t>(start + length)];
      if (next < 0 || !std::equal(context.end() - length, context.end(), text.begin() + start)) continue;
      ++found.of;
      ++found.counts[next];
    }
    if (found.of > 0) return found;
  }
  return {};
}

bool finds_as_expected(const CorpusIndex& index, const Tokens& text, Tokens context) {
  CorpusIndex::Match match = index.find(context.data(), static_cast<int>(context.size()));
  const Expected expected = search(text, context);
  if (match.length != expected.length) return false;
  for (CorpusIndex::Continuation next = index.best(match); next.token >= 0; next = index.best(match)) {
    const Tokens matched(context.end() - match.length, context.end());
    const Expected here = search(text, matched);
    if (here.length != match.length || next.of != here.of || next.count != here.counts.at(next.token)) return false;
    if (here.of <= 32) {  // else only some continuations are looked at
      for (const auto& [token, count] : here.counts) {
        if (count > next.count || (count == next.count && token < next.token)) return false;
      }
    }
    match = next.longer;
    context.push_back(next.token);
    if (match.length >= CorpusIndex::max_depth) break;
  }
  return true;
}

Tokens random_text(int vocabulary, int length, std::uint64_t seed) {
  simulated::Random random(seed);
  Tokens text;
  while (static_cast<int>(text.size()) < length) {
    if (text.size() > 10 && random() < 0.1) {  // a part of it follows again
      const auto from = static_cast<std::size_t>(random() * static_cast<double>(text.size()));
      for (std::size_t i = from; i < std::min(from + 40, text.size()); ++i) text.push_back(text[i]);
    }
    text.push_back(random() < 0.02 ? CorpusIndex::end_of_document : static_cast<Token>(random() * vocabulary));
  }
  return text;
}

}  // namespace

TEST(finds_the_longest_match_and_its_best_continuation) {
  int checked = 0, matched = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const int vocabulary = 2 + static_cast<int>(seed) % 30;
    const Tokens text = random_text(vocabulary, 40 + 5 * static_cast<int>(seed), seed);
    const CorpusIndex index(text);
    const Tokens other = random_text(vocabulary, 60, seed + 1000);
    for (const Tokens& from : {text, other}) {
      for (std::size_t end = 1; end < from.size(); end += 7) {
        const auto last = from.begin() + static_cast<std::ptrdiff_t>(end);
        Tokens context(last - static_cast<std::ptrdiff_t>(std::min<std::size_t>(end, 40)), last);
        std::replace(context.begin(), context.end(), CorpusIndex::end_of_document, Token{0});  // no token of a sequence
        CHECK(finds_as_expected(index, text, context));
        ++checked;
        matched += index.find(context.data(), static_cast<int>(context.size())).length > 0 ? 1 : 0;
      }
    }
  }
  CHECK(checked > 1000 && matched > 500);
}

TEST(empty_texts_and_unknown_tokens_match_nothing) {
  const Tokens context = {1, 2, 3};
  for (const Tokens& text : {Tokens(), Tokens{5}, Tokens{5, 6, 7}, Tokens{CorpusIndex::end_of_document}}) {
    const CorpusIndex index(text);
    CHECK(index.find(context.data(), 3).length == 0 && index.best({}).token < 0);
  }
  CHECK_THROWS(CorpusIndex({-7}), std::invalid_argument, "negative");
}

TEST(an_order_that_was_kept_finds_the_same) {
  const Tokens text = random_text(9, 400, 5);
  const CorpusIndex made(text), kept(text, made.order());
  const Tokens context(text.begin() + 100, text.begin() + 120);
  const auto a = made.find(context.data(), 20), b = kept.find(context.data(), 20);
  CHECK(a.first == b.first && a.end == b.end && a.length == b.length && a.length > 0);
}

TEST(damaged_orders_are_refused) {
  const Tokens text = {1, 2, 3, 1};
  CHECK_THROWS(CorpusIndex(text, {0, 1, 2}), std::invalid_argument, "order");
  CHECK_THROWS(CorpusIndex(text, {0, 1, 2, 2}), std::invalid_argument, "order");
  CHECK_THROWS(CorpusIndex(text, {0, 1, 2, 4}), std::invalid_argument, "order");
  CHECK_THROWS(CorpusIndex(text, {0, 1, 2, -1}), std::invalid_argument, "order");
  const CorpusIndex wrong(text, {3, 2, 1, 0});  // poor proposals, but nothing outside the text
  for (const Token token : {1, 2, 3}) wrong.best(wrong.find(&token, 1));
}

TEST(indexing_can_be_stopped) {
  const Tokens text = random_text(1000, 200000, 3);
  int calls = 0;
  CHECK_THROWS(CorpusIndex(text, [&](double) { return ++calls < 2; }), Cancelled, "corpus");
  CHECK(calls == 2);
}

// Sequences look in the corpus where their own text says nothing.
TEST(proposals_come_from_the_corpus) {
  const auto corpus = std::make_shared<const CorpusIndex>(Tokens{1, 2, 3, 4, 5, CorpusIndex::end_of_document, 9, 9});
  for (const double temperature : {0.0, 1.0}) {
    sampling::SamplingParams params;
    params.temperature = temperature;
    SuffixProposer proposer(corpus);
    Sequence s(0, params, std::make_unique<sampling::PhiloxUniforms>(1, 0));
    s.tokens = {7, 1, 2};
    s.num_committed = 3;
    Stats stats;
    proposer.propose({{&s, 8}}, stats);
    CHECK(Tokens(s.tokens.begin() + 3, s.tokens.end()) == Tokens({3, 4, 5}));
  }
}

TEST_MAIN()
