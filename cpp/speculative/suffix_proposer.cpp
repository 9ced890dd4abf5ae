#include "speculative/suffix_proposer.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "speculative/copies.h"

namespace specdec {
namespace {

// How often the prediction was right in 110,000 tokens of source code, to about 0.06, for matches of 1 to 31 tokens
// that occurred 1 to 100 times. AcceptanceModel corrects it for the current text: it is lower in English, higher in
// edited code.
double confidence_in(const TextIndex::Continuation& next, int length) {
  const double count = next.count == next.of ? next.count : next.count - 0.5;
  return count / (next.of + 3.0 / length);
}

constexpr int longest_match = TextIndex::max_depth - 1;
constexpr double confidence_later = 0.9;  // of a match of 27 tokens
constexpr double about_equal = 0.02;      // probabilities

bool may_use_earlier_outputs(const Sequence& s) {
  return s.chooses_draft_length() || s.verification == Verification::invariant || s.transforms.params().greedy();
}

}  // namespace

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
  text_of(std::max(from, to));  // allocates both
  SuffixIndex copied = text_of(from);
  text_of(to) = std::move(copied);
}

SuffixProposer::Source SuffixProposer::source_at(const TextIndex& index, const TextIndex::Match& match) {
  const TextIndex::Continuation next = index.best(match);
  if (next.token < 0) return {};
  return {&index, next, confidence_in(next, match.length)};
}

// The source with the highest confidence in the token that follows the context; of equal ones the sequence's own text.
SuffixProposer::Source SuffixProposer::find_in_other_texts(const Sequence& s, const Token* context, int count) const {
  Source best;
  if (!looks_everywhere_) return best;
  const auto or_in = [&](const TextIndex& index) {
    const Source other = source_at(index, index.find(context, count));
    if (other.confidence > best.confidence) best = other;
  };
  or_in(texts_[idx(s.slot)]);
  if (may_use_earlier_outputs(s)) {
    for (const SuffixIndex& half : earlier_.halves()) or_in(half);
  }
  if (corpus_) or_in(*corpus_);
  return best;
}

SuffixProposer::Source SuffixProposer::find(const Sequence& s, const Token* context, int count) const {
  const Source other = find_in_other_texts(s, context, count);
  if (!s.prediction) return other;
  const Source predicted = source_at(s.prediction->index, s.prediction->index.find(context, count));
  if (predicted.index == nullptr || other.index == nullptr) return other.index == nullptr ? predicted : other;
  // If both propose the same token, the following copies, which have longer matches, decide.
  const bool agree = predicted.next.token == other.next.token;
  const double by_prediction = s.prediction->record.probability(agree ? confidence_later : predicted.confidence);
  const double by_other = s.prediction->record_of_others.probability(agree ? confidence_later : other.confidence);
  return by_prediction >= by_other - about_equal ? predicted : other;
}

// Compares what each source would have proposed for every new token of the output with that token.
void SuffixProposer::judge(Sequence& s) {
  Prediction& prediction = *s.prediction;
  for (int& i = prediction.num_judged; i < s.num_committed; ++i) {
    prefill(s, i);
    const int count = std::min(longest_match, i);
    const Token *const token = s.tokens.data() + i, *const context = token - count;
    const Source predicted = source_at(prediction.index, prediction.index.find(context, count));
    if (predicted.index != nullptr) prediction.record.learn(predicted.confidence, predicted.next.token == *token);
    const Source other = find_in_other_texts(s, context, count);
    if (other.index != nullptr) prediction.record_of_others.learn(other.confidence, other.next.token == *token);
  }
}

void SuffixProposer::look_up(Sequence& s, int most, std::vector<Copy>& copies) {
  copies.clear();
  if (!looks_everywhere_ && !s.prediction) return;
  if (s.prediction) judge(s);
  prefill(s, s.num_committed);
  if (most <= 0) return;
  context_.assign(s.tokens.end() - std::min<std::ptrdiff_t>(longest_match, s.tokens.end() - s.tokens.begin()),
                  s.tokens.end());
  const auto find_after = [&](int longest) {
    const int count = std::min(longest, static_cast<int>(context_.size()));
    return find(s, context_.data() + context_.size() - count, count);
  };
  for (Source source = find_after(longest_match); source.index != nullptr;) {
    const bool is_predicted = s.prediction && source.index == &s.prediction->index;
    if (is_predicted) source.confidence = s.prediction->record.probability(source.confidence);
    const DraftOrigin origin = is_predicted ? DraftOrigin::prediction : DraftOrigin::suffix;
    copies.push_back({source.next.token, source.confidence, origin});
    if (static_cast<int>(copies.size()) == most) return;
    context_.push_back(source.next.token);
    source = source_at(*source.index, source.next.longer);
    // At the end of the text, or of the index's depth, continues with a shorter match of the copies.
    if (source.index == nullptr) source = find_after(SuffixIndex::max_depth / 2);
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
