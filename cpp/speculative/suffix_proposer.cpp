#include "speculative/suffix_proposer.h"

#include <algorithm>

#include "base/index.h"
#include "speculative/copies.h"

namespace specdec {
namespace {

// How often the prediction was right in 110,000 tokens of source code, to about 0.06, for matches of 1 to 31 tokens
// that occurred 1 to 100 times. AcceptanceModel corrects it for the text at hand: it is lower in English, higher in
// edited code.
double confidence_in(const TextIndex::Continuation& next, int length) {
  const double count = next.count == next.of ? next.count : next.count - 0.5;
  return count / (next.of + 3.0 / length);
}

// A prediction is there because it is likely: its matches count as longer ones.
constexpr int weight_of_prediction = 4;

bool may_use_earlier_outputs(const Sequence& s) {
  return s.chooses_draft_length() || s.verification == Verification::invariant || s.transforms.params().greedy();
}

}  // namespace

std::shared_ptr<const TextIndex> prediction_index(const std::vector<Token>& prompt,
                                                  const std::vector<Token>& prediction) {
  auto index = std::make_shared<SuffixIndex>();
  const std::ptrdiff_t context = std::min<std::ptrdiff_t>(TextIndex::max_depth - 1, prompt.end() - prompt.begin());
  std::for_each(prompt.end() - context, prompt.end(), [&](Token token) { index->push(token); });
  for (const Token token : prediction) index->push(token);
  return index;
}

SuffixIndex& SuffixProposer::text_of(int slot) {
  const auto place = idx(slot);
  if (texts_.size() <= place) texts_.resize(place + 1);
  return texts_[place];
}

void SuffixProposer::prefill(const Sequence& sequence, int length) {
  if (!looks_everywhere_) return;
  SuffixIndex& text = text_of(sequence.slot);
  for (int i = text.length(); i < length; ++i) text.push(sequence.tokens[idx(i)]);
}

void SuffixProposer::truncate(int slot, int length) { text_of(slot).truncate(length); }

void SuffixProposer::copy(int from, int to) {
  text_of(std::max(from, to));  // makes room for both
  text_of(to) = text_of(from);
}

SuffixProposer::Source SuffixProposer::source_at(const Sequence& s, const TextIndex& index,
                                                 const TextIndex::Match& match) {
  const TextIndex::Continuation next = index.best(match);
  if (next.token < 0) return {};
  const int weight = &index == s.prediction.get() ? weight_of_prediction : 1;
  return {&index, next, confidence_in(next, weight * match.length)};
}

// The source with the highest confidence in the token that follows the context; of equal ones the prediction, then the
// sequence's own text.
SuffixProposer::Source SuffixProposer::find(const Sequence& s, const std::vector<Token>& context, int longest) const {
  const int count = std::min(longest, static_cast<int>(context.size()));
  const Token* const tokens = context.data() + context.size() - count;
  const auto in = [&](const TextIndex& index) { return source_at(s, index, index.find(tokens, count)); };
  Source best;
  const auto or_in = [&](const TextIndex& index) {
    const Source other = in(index);
    if (other.confidence > best.confidence) best = other;
  };
  if (s.prediction) or_in(*s.prediction);
  if (!looks_everywhere_) return best;
  or_in(texts_[idx(s.slot)]);
  if (may_use_earlier_outputs(s)) {
    for (const SuffixIndex& half : earlier_.halves()) or_in(half);
  }
  if (corpus_) or_in(*corpus_);
  return best;
}

void SuffixProposer::look_up(const Sequence& s, int most, std::vector<Copy>& copies) {
  copies.clear();
  if (most <= 0 || (!looks_everywhere_ && !s.prediction)) return;
  prefill(s, s.num_committed);
  constexpr int longest = SuffixIndex::max_depth - 1;
  context_.assign(s.tokens.end() - std::min<std::ptrdiff_t>(longest, s.tokens.end() - s.tokens.begin()),
                  s.tokens.end());
  for (Source source = find(s, context_, longest); source.index != nullptr;) {
    const DraftOrigin origin = source.index == s.prediction.get() ? DraftOrigin::prediction : DraftOrigin::suffix;
    copies.push_back({source.next.token, source.confidence, origin});
    if (static_cast<int>(copies.size()) == most) return;
    context_.push_back(source.next.token);
    source = source_at(s, *source.index, source.next.longer);
    // At the end of the text, or of the index's depth: goes on with a shorter match of the copies.
    if (source.index == nullptr) source = find(s, context_, SuffixIndex::max_depth / 2);
  }
}

void SuffixProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  Stopwatch watch(stats.draft_seconds);
  for (const ProposalRequest& request : requests) {
    add_only_tokens(request);
    look_up(*request.sequence, most_copies(request), copies_);
    if (!copies_.empty()) add_copies(request, copies_);
  }
}

}  // namespace specdec
