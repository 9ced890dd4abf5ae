#include "speculative/adaptive_draft_length.h"

#include <algorithm>

namespace specdec {
namespace {

constexpr int probe_drafts = 2;
constexpr double probe_share = 0.01;    // of the time
constexpr int longest_outlook = 12;     // drafts ahead of the one in question
constexpr int leap = 4;                 // passes are tried up to so many times the longest one measured

}  // namespace

void AdaptiveDraftLength::Share::add(double outcome, double window) {
  weight = std::min(weight + 1.0, window);
  mean += (outcome - mean) / weight;
}

AdaptiveDraftLength::ShareByConfidence::ShareByConfidence() {
  for (std::size_t level = 0; level < shares_.size(); ++level) {
    const double doubt = 1.0 - 0.5 * ((level == 0 ? 0.0 : level_ends[level - 1]) + level_ends[level]);
    shares_[level].mean = 1.0 - doubt * doubt;
  }
}

AdaptiveDraftLength::Share& AdaptiveDraftLength::ShareByConfidence::at(double confidence) {
  const auto level = std::upper_bound(level_ends.begin(), level_ends.end() - 1, confidence) - level_ends.begin();
  return shares_[static_cast<std::size_t>(level)];
}

// What is being made, and at least what plain decoding would make.
double AdaptiveDraftLength::tokens_per_second() const {
  const double plain = num_sequences_ / target_costs_.seconds(num_sequences_);
  return recent_seconds_ > 0.0 ? std::max(plain, recent_tokens_ / recent_seconds_) : plain;
}

bool AdaptiveDraftLength::pays(double survival, double next_acceptance, int passes_for_next) const {
  const double rate = tokens_per_second(), now = target_costs_.seconds(pass_tokens_);
  double expected = 0.0, accepted = survival * next_acceptance;
  const int outlook = std::min(longest_outlook, leap * target_costs_.longest() - pass_tokens_);
  for (int more = 1; more <= outlook; ++more, accepted *= typical_.mean) {
    expected += accepted;
    const double drafting = (more - 1 + passes_for_next) * draft_costs_.seconds(num_sequences_) / num_sequences_;
    if (expected > rate * (drafting + target_costs_.seconds(pass_tokens_ + more) - now)) return true;
  }
  return false;
}

void AdaptiveDraftLength::begin_cycle(int num_sequences) {
  num_sequences_ = pass_tokens_ = num_sequences;
  draft_passes_ = 0;
  probing_ = false;
  if (target_costs_.empty() || pays(1.0, typical_.mean, 1)) return;
  const int probe_tokens = (1 + probe_drafts) * num_sequences;
  const double probe = probe_drafts * draft_costs_.seconds(num_sequences) + target_costs_.seconds(probe_tokens) - target_costs_.seconds(num_sequences);
  probing_ = probe_is_due_ || probe_share * plain_seconds_ > probe;
}

// The first cycle of all is plain, so that there is something to compare with.
bool AdaptiveDraftLength::worth_a_row(const Sequence& s) {
  if (target_costs_.empty()) return false;
  if (probing_) return s.num_drafted() < probe_drafts;
  return pays(s.plan.survival, typical_.mean, 1);
}

bool AdaptiveDraftLength::worth_a_draft(const Sequence& s, double row_confidence) {
  const double acceptance = accepted_by_row_.at(row_confidence).mean;
  typical_.add(acceptance, 24.0);
  if (target_costs_.empty()) return false;
  if (probing_) return s.num_drafted() < probe_drafts;
  return pays(s.plan.survival, acceptance, 0);
}

void AdaptiveDraftLength::drafted(Sequence& s, double row_confidence, double confidence) {
  s.plan.survival *= accepted_by_draft_.at(confidence).mean;
  s.plan.places.push_back({row_confidence, confidence});
  ++pass_tokens_;
}

void AdaptiveDraftLength::withheld(Sequence& s, double row_confidence, Token token) {
  s.plan.withheld = token;
  s.plan.withheld_confidence = row_confidence;
}

void AdaptiveDraftLength::record_draft_pass(double seconds) {
  draft_costs_.record(num_sequences_, seconds);
  ++draft_passes_;
}

void AdaptiveDraftLength::learn(const DraftPlan::Confidence& confidence, bool accepted) {
  accepted_by_row_.at(confidence.row).add(accepted ? 1.0 : 0.0, 50.0);
  accepted_by_draft_.at(confidence.draft).add(accepted ? 1.0 : 0.0, 50.0);
}

// Drafts after the first refused one were never judged.
void AdaptiveDraftLength::observe(const Sequence& s, int num_accepted, Token target_token) {
  const int num_drafted = static_cast<int>(s.plan.places.size());
  for (int place = 0; place < std::min(num_accepted + 1, num_drafted); ++place) {
    learn(s.plan.places[static_cast<std::size_t>(place)], place < num_accepted);
  }
  if (s.plan.withheld >= 0 && num_accepted == num_drafted) {
    learn({s.plan.withheld_confidence, s.plan.withheld_confidence}, s.plan.withheld == target_token);
  }
}

void AdaptiveDraftLength::end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) {
  target_costs_.record(num_scored, seconds - propose_seconds);
  recent_tokens_ = 0.95 * recent_tokens_ + num_made;
  recent_seconds_ = 0.95 * recent_seconds_ + target_costs_.seconds(num_scored) + draft_passes_ * draft_costs_.seconds(num_sequences_);
  const bool drafted_any = num_scored > num_sequences_;
  if (drafted_any) probe_is_due_ = false;
  plain_seconds_ = drafted_any ? 0.0 : plain_seconds_ + seconds;
}

}  // namespace specdec
