#include "speculative/ngram_proposer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "base/index.h"
#include "speculative/copies.h"

namespace specdec {
namespace {

// The end index of the latest earlier occurrence of the last `n` tokens, or 0 if there is none.
int end_of_earlier_copy(const std::vector<Token>& tokens, int n) {
  const int size = static_cast<int>(tokens.size());
  const auto suffix = tokens.end() - n;
  for (int end = size - 1; end >= n; --end) {
    if (std::equal(suffix, tokens.end(), tokens.begin() + (end - n))) return end;
  }
  return 0;
}

// The number of tokens before `end` that equal the last ones of the sequence. This is often more than the n-gram that
// was searched for.
int length_of_copy(const std::vector<Token>& tokens, int end) {
  constexpr int longest_counted = 48;
  const int limit = std::min(longest_counted, end);
  const auto copy = std::make_reverse_iterator(tokens.begin() + end);
  return static_cast<int>(std::mismatch(copy, copy + limit, tokens.rbegin()).first - copy);
}

// Confidence in the next token of a repetition of `length` tokens so far.
double confidence_in_repetition(int length) { return 1.0 - std::pow(0.9, length); }

}  // namespace

NgramProposer::NgramProposer(int max_ngram, int min_ngram) : max_ngram_(max_ngram), min_ngram_(min_ngram) {
  if (min_ngram < 1 || max_ngram < min_ngram) throw std::invalid_argument("n-gram sizes must satisfy 1 <= min <= max");
}

void NgramProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  Stopwatch watch(stats.draft_seconds);
  for (const ProposalRequest& request : requests) {
    Sequence& s = *request.sequence;
    add_only_tokens(request);
    int source = 0;
    for (int n = max_ngram_; n >= min_ngram_ && source == 0; --n) source = end_of_earlier_copy(s.tokens, n);
    if (source == 0) continue;
    const int matched = request.adaptive != nullptr ? length_of_copy(s.tokens, source) : 0;
    const int count = std::min(most_copies(request), s.num_committed - source);
    copies_.clear();
    for (int place = 0; place < count; ++place) {
      copies_.push_back({s.tokens[idx(source + place)], confidence_in_repetition(matched + place), DraftOrigin::ngram});
    }
    add_copies(request, copies_);
  }
}

}  // namespace specdec
