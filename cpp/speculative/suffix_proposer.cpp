#include "speculative/suffix_proposer.h"

#include <algorithm>

#include "speculative/one_hot.h"

namespace specdec {
namespace {

// How often the prediction was right in 110,000 tokens of source code, to about 0.06, for matches of 1 to 31 tokens that
// occurred 1 to 100 times. AcceptanceModel corrects it for the text at hand: it is lower in English, higher in edited code.
double confidence_in(const SuffixIndex::Continuation& next, int length) {
  const double count = next.count == next.of ? next.count : next.count - 0.5;
  return count / (next.of + 3.0 / length);
}

bool may_use_earlier_outputs(const Sequence& s) {
  return s.chooses_draft_length() || s.verification == Verification::invariant || s.transforms.params().greedy();
}

}  // namespace

SuffixIndex& SuffixProposer::text_of(int slot) {
  const auto place = static_cast<std::size_t>(slot);
  if (texts_.size() <= place) texts_.resize(place + 1);
  return texts_[place];
}

void SuffixProposer::prefill(const Sequence& sequence, int length) {
  SuffixIndex& text = text_of(sequence.slot);
  for (int i = text.length(); i < length; ++i) text.push(sequence.tokens[static_cast<std::size_t>(i)]);
}

void SuffixProposer::truncate(int slot, int length) { text_of(slot).truncate(length); }

void SuffixProposer::copy(int from, int to) {
  text_of(std::max(from, to));  // makes room for both
  text_of(to) = text_of(from);
}

SuffixProposer::Source SuffixProposer::source_at(const SuffixIndex& index, const SuffixIndex::Match& match) {
  const SuffixIndex::Continuation next = index.best(match);
  if (next.token < 0) return {};
  return {&index, match, next, confidence_in(next, match.length)};
}

// The source with the highest confidence in its next token. The sequence's own text is preferred to equal ones.
SuffixProposer::Source SuffixProposer::find(const Sequence& s, int longest) const {
  const int count = std::min(longest, static_cast<int>(s.tokens.size()));
  const Token* context = s.tokens.data() + s.tokens.size() - count;
  const auto in = [&](const SuffixIndex& index) { return source_at(index, index.find(context, count)); };
  Source best = in(texts_[static_cast<std::size_t>(s.slot)]);
  if (!may_use_earlier_outputs(s)) return best;
  for (const SuffixIndex& half : earlier_.halves()) {
    const Source other = in(half);
    if (other.confidence > best.confidence) best = other;
  }
  return best;
}

void SuffixProposer::propose(const ProposalRequest& request) {
  Sequence& s = *request.sequence;
  prefill(s, s.num_committed);
  Source source = find(s, SuffixIndex::max_depth - 1);
  while (source.index != nullptr && s.num_drafted() < request.num_tokens) {
    if (!submit_one_hot(request, source.next.token, source.confidence)) return;
    source = source_at(*source.index, source.index->advance(source.match));
    // At the end of the text, or of the index's depth: goes on with a shorter match of the drafts.
    if (source.index == nullptr) source = find(s, SuffixIndex::max_depth / 2);
  }
}

void SuffixProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  Stopwatch watch(stats.draft_seconds);
  for (const ProposalRequest& request : requests) propose(request);
}

}  // namespace specdec
