#include "speculative/adaptive_draft_length.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace specdec {

void AdaptiveDraftLength::Share::add(double outcome, double window) {
  weight = std::min(weight + 1.0, window);
  mean += (outcome - mean) / weight;
}

// The current rate: of recent cycles, scaled to the present number of sequences if there were more; at least that of plain
// decoding.
double AdaptiveDraftLength::tokens_per_second() const {
  const double plain = num_sequences_ / target_costs_.seconds(num_sequences_);
  if (recent_seconds_ <= 0.0) return plain;
  const double left = std::min(1.0, num_sequences_ * recent_seconds_ / recent_sequence_seconds_);
  return std::max(plain, left * recent_tokens_ / recent_seconds_);
}

AdaptiveDraftLength::AdaptiveDraftLength(const AutoOptions& options)
    : options_(options),
      target_costs_(options.costs),
      draft_costs_(options.costs),
      accepted_by_row_(options.acceptance),
      accepted_by_draft_(options.acceptance) {
  row_confidences_.fill(options.first_confidence);
  standing_.reserve(max_draft_tokens + 1);
  const std::size_t num_lengths = static_cast<std::size_t>(options.longest_tried) + 1;
  target_pass_.reserve(num_lengths);
  losses_.reserve(num_lengths);
}

double AdaptiveDraftLength::typical_acceptance() const {
  double sum = 0.0;
  for (const double confidence : row_confidences_) sum += accepted_by_row_.probability(confidence);
  return sum / static_cast<double>(row_confidences_.size());
}

void AdaptiveDraftLength::begin_cycle(int num_sequences) {
  const bool as_before = num_sequences == num_sequences_ && longest_ == 0 && plan_follows_ == target_costs_.latest();
  num_sequences_ = num_sequences;
  standing_.assign(1, num_sequences);
  longest_ = num_proposing_ = num_not_asked_ = 0;
  draft_seconds_ = 0.0;
  trial_ = -1;
  if (!as_before || budget_ >= next_trial_ || ++plan_age_ >= options_.plan_lasts) plan();
}

void AdaptiveDraftLength::plan() {
  plan_age_ = 0;
  plan_follows_ = target_costs_.latest();
  typical_ = typical_acceptance();
  draft_pass_ = draft_costs_.seconds(num_sequences_);
  target_pass_.clear();
  // The first cycles are plain, to have a cost to compare with.
  if (target_costs_.empty() || seconds_run_ < options_.warm_after) return;
  const int most_columns = std::max(num_sequences_, static_cast<int>(options_.leap * target_costs_.longest()));
  for (int k = 0; k <= options_.longest_tried && columns(k) <= most_columns; ++k) {
    target_pass_.push_back(target_costs_.seconds(columns(k)));
  }
  add_changes();
  choose_trial();
}

// Adds the cost of a change of pass size: once if this pass differs from the last one, and again if the next one will differ
// from this one. The next pass is assumed to have the steady length if there is something to propose, else to be plain. The
// steady length moves once the time lost by keeping it exceeds the cost of a change.
void AdaptiveDraftLength::add_changes() {
  const auto best = weigh();
  steady_ = std::min(steady_, losses_.size() - 1);
  regret_ += losses_[steady_] - *best;
  if (regret_ >= target_costs_.change()) steady_ = static_cast<std::size_t>(best - losses_.cbegin()), regret_ = 0.0;
  const double proposing = 1.0 - std::pow(1.0 - proposing_.mean, num_sequences_);
  for (std::size_t k = 0; k < target_pass_.size(); ++k) {
    double changes = columns(static_cast<int>(k)) != target_costs_.latest() ? 1.0 : 0.0;
    if (k != steady_) changes += proposing;
    if (k != 0) changes += 1.0 - proposing;
    target_pass_[k] += changes * target_costs_.change();
  }
}

// Fills losses_ for drafts of typical acceptance. Returns the length that loses least.
std::vector<double>::const_iterator AdaptiveDraftLength::weigh() {
  losses_.clear();
  const double rate = tokens_per_second();
  double tokens = num_sequences_, next = num_sequences_;
  for (const double pass : target_pass_) {
    losses_.push_back(pass + static_cast<double>(losses_.size()) * draft_pass_ - tokens / rate);
    tokens += next *= typical_;
  }
  return std::min_element(losses_.cbegin(), losses_.cend());
}

// Chooses the length with the largest optimistic gain over the best one, within the budget. If there is none and not drafting
// is best, chooses the draft length that loses least, to check whether drafting still does not pay.
void AdaptiveDraftLength::choose_trial() {
  const auto best = weigh();
  double most = 0.0;
  next_trial_ = std::numeric_limits<double>::max();
  for (auto loss = losses_.cbegin(); loss != losses_.cend(); ++loss) {
    const int k = static_cast<int>(loss - losses_.cbegin());
    if (loss != best) next_trial_ = std::min(next_trial_, *loss - *best);
    const double doubt = target_costs_.doubt(columns(k));
    const double promise = target_pass_[static_cast<std::size_t>(k)] * (1.0 - std::exp(-options_.optimism * doubt)) - (*loss - *best);
    if (loss == best || *loss - *best > budget_ || promise <= most) continue;
    trial_ = k, trial_loss_ = *loss - *best, most = promise;
  }
  if (trial_ >= 0 || best != losses_.cbegin() || losses_.size() < 2) return;
  const auto cheapest = std::min_element(losses_.cbegin() + 1, losses_.cend());
  if (*cheapest - *best <= budget_) trial_ = static_cast<int>(cheapest - losses_.cbegin()), trial_loss_ = *cheapest - *best;
}

// Summed survival of the other sequences that may still get as many drafts as this one. Sequences with more are left out:
// their columns are paid for already.
double AdaptiveDraftLength::survival_of_others(const Sequence& s) const {
  double sum = 0.0;
  for (int drafts = 0; drafts <= s.num_drafted(); ++drafts) sum = typical_ * sum + standing_[static_cast<std::size_t>(drafts)];
  return proposing_.mean * std::max(0.0, sum - s.plan.survival);
}

bool AdaptiveDraftLength::pays(const Sequence& s, double next_acceptance, bool row_is_known) const {
  const std::size_t num_drafted = static_cast<std::size_t>(s.num_drafted()), longest = static_cast<std::size_t>(longest_);
  if (row_is_known && num_drafted < longest) return true;  // another sequence's longer draft has paid for this column
  const double rate = tokens_per_second();
  double tokens = 0.0, next = s.plan.survival * next_acceptance + survival_of_others(s) * typical_;
  double drafting = row_is_known ? 0.0 : draft_pass_;
  for (std::size_t then = num_drafted + 1; then < target_pass_.size(); ++then) {
    tokens += next;
    if (tokens > rate * (drafting + target_pass_[std::max(longest, then)] - target_pass_[longest])) return true;
    next *= typical_;
    drafting += draft_pass_;
  }
  return false;
}

bool AdaptiveDraftLength::goes_on(const Sequence& s, double next_acceptance, bool row_is_known) {
  if (trial_ >= 0 ? s.num_drafted() < trial_ : pays(s, next_acceptance, row_is_known)) return true;
  standing_[static_cast<std::size_t>(s.num_drafted())] -= s.plan.survival;
  return false;
}

bool AdaptiveDraftLength::worth_a_row(const Sequence& s) {
  const bool is_worth = goes_on(s, typical_, false);
  if (!is_worth && s.num_drafted() == 0) ++num_not_asked_;
  return is_worth;
}

bool AdaptiveDraftLength::worth_a_draft(const Sequence& s, double row_confidence) {
  const double acceptance = accepted_by_row_.probability(row_confidence);
  if (s.num_drafted() == 0) ++num_proposing_;
  row_confidences_[next_row_] = row_confidence;
  next_row_ = (next_row_ + 1) % row_confidences_.size();
  return goes_on(s, acceptance, true);
}

void AdaptiveDraftLength::drafted(Sequence& s, double row_confidence, double confidence) {
  const std::size_t place = s.plan.places.size();
  standing_.resize(std::max(standing_.size(), place + 2));
  standing_[place] -= s.plan.survival;
  s.plan.survival *= accepted_by_draft_.probability(confidence);
  standing_[place + 1] += s.plan.survival;
  s.plan.places.push_back({row_confidence, confidence});
  longest_ = std::max(longest_, static_cast<int>(place) + 1);
}

void AdaptiveDraftLength::withheld(Sequence& s, double row_confidence, Token token) {
  s.plan.withheld = token;
  s.plan.withheld_confidence = row_confidence;
}

void AdaptiveDraftLength::record_draft_pass(int num_rows, double seconds) {
  draft_costs_.record(num_rows, seconds);
  draft_seconds_ += draft_costs_.seconds(num_rows);
}

void AdaptiveDraftLength::learn(const DraftPlan::Confidence& confidence, bool accepted) {
  accepted_by_row_.learn(confidence.row, accepted);
  accepted_by_draft_.learn(confidence.draft, accepted);
}

// Drafts after the first rejected one were not judged.
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
  // The first cycle is not recorded, because caches and pages are cold: plain decoding would look expensive for a long time,
  // because it is not re-measured.
  if (std::exchange(is_first_, false)) return;
  seconds_run_ += seconds;
  const bool is_change = num_scored != target_costs_.latest();
  target_costs_.record(num_scored, seconds - propose_seconds);
  accepted_by_row_.forget();
  accepted_by_draft_.forget();
  const double undisturbed = target_costs_.seconds(num_scored) + (is_change ? target_costs_.change() : 0.0) + draft_seconds_;
  recent_tokens_ = options_.rate_memory * recent_tokens_ + num_made;
  recent_seconds_ = options_.rate_memory * recent_seconds_ + undisturbed;
  recent_sequence_seconds_ = options_.rate_memory * recent_sequence_seconds_ + num_sequences_ * undisturbed;
  const int num_asked = num_sequences_ - num_not_asked_;
  if (num_asked > 0) proposing_.add(static_cast<double>(num_proposing_) / num_asked, options_.share_window);

  // A trial may cost more than expected, because a draft model that was not used for long must first read the tokens it
  // missed; then the budget goes negative. It is capped at the cost of one trial, so that trials never come in a row.
  const double one_trial = options_.trial_savings * (target_costs_.seconds(num_sequences_) + draft_pass_);
  budget_ = std::min(one_trial, budget_ + options_.trial_share * undisturbed);
  if (trial_ == 0) budget_ -= trial_loss_;
  if (trial_ > 0 && longest_ > 0) budget_ -= trial_loss_ + std::max(0.0, propose_seconds - draft_seconds_);
}

DraftingOutlook AdaptiveDraftLength::outlook() const {
  DraftingOutlook outlook;
  outlook.plain_seconds = plain_seconds();
  if (outlook.plain_seconds <= 0.0 || typical_ <= 0.0) return outlook;
  outlook.cost_of_8 = target_costs_.seconds(8) / outlook.plain_seconds;
  outlook.cost_of_draft = draft_costs_.seconds(1) / outlook.plain_seconds;
  outlook.acceptance = typical_;
  double tokens = 1.0, next = 1.0;
  for (int k = 1; k <= options_.longest_tried; ++k) {
    tokens += next *= typical_;
    const double time = k * outlook.cost_of_draft + target_costs_.seconds(k + 1) / outlook.plain_seconds;
    outlook.speedup = std::max(outlook.speedup, tokens / time);
  }
  return outlook;
}

}  // namespace specdec
