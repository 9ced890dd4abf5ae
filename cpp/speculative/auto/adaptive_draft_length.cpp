#include "speculative/auto/adaptive_draft_length.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/index.h"

namespace specdec {

namespace {

// For confidences that are probabilities already, so that nothing is learnt.
AutoOptions probabilities() {
  AutoOptions options;
  options.acceptance.level = options.acceptance.level_variance = options.acceptance.slope_variance = 0.0;
  options.acceptance.slope = 1.0;
  return options;
}

}  // namespace

void AdaptiveDraftLength::Share::add(double outcome, double window) {
  weight = std::min(weight + 1.0, window);
  mean += (outcome - mean) / weight;
}

AdaptiveDraftLength::Acceptance::Acceptance(const AutoOptions& options)
    : by_row(options.acceptance), by_draft(options.acceptance) {}

double AdaptiveDraftLength::Acceptance::typical() const {
  const std::size_t count = std::min(num_rows, row_confidences.size());
  if (count == 0) return by_row.probability(0.5);
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += by_row.probability(row_confidences[i]);
  return sum / static_cast<double>(count);
}

void AdaptiveDraftLength::Acceptance::add_row(double confidence) {
  row_confidences[num_rows++ % row_confidences.size()] = confidence;
}

void AdaptiveDraftLength::Acceptance::learn(const DraftPlan::Confidence& confidence, bool accepted) {
  by_row.learn(confidence.row, accepted);
  by_draft.learn(confidence.draft, accepted);
}

void AdaptiveDraftLength::Acceptance::forget() {
  by_row.forget();
  by_draft.forget();
}

AutoKnowledge::Drafts AdaptiveDraftLength::Acceptance::knowledge() const {
  const auto count = static_cast<std::ptrdiff_t>(std::min(num_rows, row_confidences.size()));
  return {by_row.knowledge(), by_draft.knowledge(), {row_confidences.begin(), row_confidences.begin() + count}, 0.0};
}

void AdaptiveDraftLength::Acceptance::begin_with(const AutoKnowledge::Drafts& known) {
  by_row.begin_with(known.by_row);
  by_draft.begin_with(known.by_draft);
  for (const double confidence : known.row_confidences) add_row(confidence);
}

void AdaptiveDraftLength::Recent::add(double share, const Recent& other) {
  tokens += share * other.tokens;
  seconds += share * other.seconds;
  sequence_seconds += share * other.sequence_seconds;
}

// The current rate, from recent cycles (with a draft model mostly those of this kind), scaled to the present number of
// sequences if there were more. At least the rate of plain decoding. running: what is expected of this cycle.
double AdaptiveDraftLength::tokens_per_second(Kind kind, const Recent& running) const {
  const double plain = num_sequences_ / target_costs_.seconds(num_sequences_);
  Recent recent = recent_[kind];
  recent.add(has_model_ ? options_.other_kind : 1.0, recent_[1 - kind]);
  recent.add(1.0, running);
  if (recent.seconds <= 0.0) return plain;
  const double left = std::min(1.0, num_sequences_ * recent.seconds / recent.sequence_seconds);
  return std::max(plain, left * recent.tokens / recent.seconds);
}

AdaptiveDraftLength::AdaptiveDraftLength(const AutoOptions& options)
    : options_(options),
      target_costs_(options.costs),
      draft_costs_(options.costs),
      model_(options),
      text_(options),
      predicted_(probabilities()) {
  standing_.reserve(max_draft_tokens + 1);
  const std::size_t num_lengths = idx(options.longest_tried) + 1;
  target_pass_.reserve(num_lengths);
  losses_.reserve(num_lengths);
}

std::optional<AutoKnowledge> AdaptiveDraftLength::knowledge() const {
  if (target_costs_.empty() || seconds_run_ < options_.warm_after) return std::nullopt;
  AutoKnowledge known;
  known.target = target_costs_.knowledge();
  known.draft = draft_costs_.knowledge();
  known.model = model_.knowledge();
  known.text = text_.knowledge();
  const auto rate = [&](const Recent& recent) {
    return recent.sequence_seconds > 0.0 ? recent.tokens / recent.sequence_seconds * plain_seconds() : 0.0;
  };
  known.model.rate = rate(recent_[by_model]);
  known.text.rate = rate(recent_[by_copying]);
  known.proposing = proposing_.mean;
  known.budget = std::max(0.0, budget_) / plain_seconds();
  return known;
}

void AdaptiveDraftLength::begin_with(const AutoKnowledge& known) {
  target_costs_.begin_with(known.target);
  draft_costs_.begin_with(known.draft);
  model_.begin_with(known.model);
  text_.begin_with(known.text);
  proposing_ = {known.proposing, options_.recent_between_runs};
  const double seconds = options_.recent_between_runs * plain_seconds();
  if (known.model.rate > 0.0) recent_[by_model] = {options_.recent_between_runs * known.model.rate, seconds, seconds};
  if (known.text.rate > 0.0) recent_[by_copying] = {options_.recent_between_runs * known.text.rate, seconds, seconds};
  has_model_ = !known.draft.passes.empty();
  budget_ = known.budget * plain_seconds();
  is_known_ = true;
  seconds_run_ = std::max(options_.warm_after, options_.trials_grow * plain_seconds());
}

void AdaptiveDraftLength::expect(double target_seconds, double draft_seconds) {
  const auto of_one_token = [&](double seconds) {
    return AutoKnowledge::Costs{{{1.0, std::log(seconds), 0.0}}, 0.0, options_.costs.first_noise};
  };
  target_costs_.begin_with(of_one_token(target_seconds));
  has_model_ = draft_seconds > 0.0;
  if (has_model_) draft_costs_.begin_with(of_one_token(draft_seconds));
  seconds_run_ = options_.warm_after;
}

void AdaptiveDraftLength::begin_cycle(int num_sequences) {
  const bool as_before = num_sequences == num_sequences_ && longest_ == 0 && plan_follows_ == target_costs_.latest();
  num_sequences_ = num_sequences;
  standing_.assign(1, num_sequences);
  longest_ = num_proposing_ = num_not_asked_ = 0;
  draft_seconds_ = catch_up_seconds_ = 0.0;
  is_copying_ = false;
  trial_ = -1;
  if (!as_before || budget_ >= next_trial_ || ++plan_age_ >= options_.plan_lasts) plan();
}

double AdaptiveDraftLength::typical_of_copies() const {
  return predicting_.mean * predicted_.typical() + (1.0 - predicting_.mean) * text_.typical();
}

void AdaptiveDraftLength::add_row(const Copy& copy) {
  Acceptance& acceptance = acceptance_of(copy.origin);
  acceptance.add_row(copy.confidence);
  predicting_.add(&acceptance == &predicted_ ? 1.0 : 0.0, static_cast<double>(acceptance.row_confidences.size()));
}

void AdaptiveDraftLength::plan() {
  plan_age_ = 0;
  plan_follows_ = target_costs_.latest();
  typical_ = has_model_ ? model_.typical() : typical_of_copies();
  draft_pass_ = draft_costs_.seconds(num_sequences_);
  target_pass_.clear();
  // The first cycles are plain, to measure a cost to compare with.
  if (target_costs_.empty() || seconds_run_ < options_.warm_after) return;
  const int most_columns = std::max(num_sequences_, static_cast<int>(options_.leap * target_costs_.longest()));
  for (int k = 0; k <= options_.longest_tried && columns(k) <= most_columns; ++k) {
    target_pass_.push_back(target_costs_.seconds(columns(k)));
  }
  add_changes();
  choose_trial();
}

// Adds the cost of a change of pass size: once if this pass differs from the last one, and again if the next one will
// differ from this one. The next pass is assumed to have the steady length if there is something to propose, and to be
// plain otherwise. The steady length moves once the time lost by keeping it exceeds the cost of a change.
void AdaptiveDraftLength::add_changes() {
  const auto best = weigh();
  steady_ = std::min(steady_, losses_.size() - 1);
  regret_ += losses_[steady_] - *best;
  if (regret_ >= target_costs_.change()) steady_ = idx(best - losses_.cbegin()), regret_ = 0.0;
  const double proposing = 1.0 - std::pow(1.0 - proposing_.mean, num_sequences_);
  for (std::size_t k = 0; k < target_pass_.size(); ++k) {
    double changes = columns(static_cast<int>(k)) != target_costs_.latest() ? 1.0 : 0.0;
    if (k != steady_) changes += proposing;
    if (k != 0) changes += 1.0 - proposing;
    target_pass_[k] += changes * target_costs_.change();
  }
}

// Fills losses_ for drafts of typical acceptance. Returns the length that loses the least.
std::vector<double>::const_iterator AdaptiveDraftLength::weigh() {
  losses_.clear();
  const double rate = tokens_per_second(by_model);
  double tokens = num_sequences_, next = num_sequences_;
  for (const double pass : target_pass_) {
    losses_.push_back(pass + num_passes(static_cast<int>(losses_.size())) * draft_pass_ - tokens / rate);
    tokens += next *= typical_;
  }
  return std::min_element(losses_.cbegin(), losses_.cend());
}

// Chooses the length with the largest optimistic gain over the best one, within the budget. If there is none and plain
// decoding is best, chooses the draft length that loses the least, to check whether drafting pays by now. Copies need
// no such trial: they teach their acceptance anyway.
void AdaptiveDraftLength::choose_trial() {
  const auto best = weigh();
  double most = 0.0;
  next_trial_ = std::numeric_limits<double>::max();
  for (auto loss = losses_.cbegin(); loss != losses_.cend(); ++loss) {
    const int k = static_cast<int>(loss - losses_.cbegin());
    if (loss != best) next_trial_ = std::min(next_trial_, *loss - *best);
    const double doubt = target_costs_.doubt(columns(k));
    const double promise = target_pass_[idx(k)] * (1.0 - std::exp(-options_.optimism * doubt)) - (*loss - *best);
    if (loss == best || *loss - *best > budget_ || promise <= most) continue;
    trial_ = k, trial_loss_ = *loss - *best, most = promise;
  }
  if (trial_ >= 0 || best != losses_.cbegin() || losses_.size() < 2 || !has_model_) return;
  const auto cheapest = std::min_element(losses_.cbegin() + 1, losses_.cend());
  if (*cheapest - *best <= budget_)
    trial_ = static_cast<int>(cheapest - losses_.cbegin()), trial_loss_ = *cheapest - *best;
}

// Summed survival of the other sequences that may still get as many drafts as this one. Sequences with more drafts are
// left out: their columns are paid for already.
double AdaptiveDraftLength::survival_of_others(const Sequence& s) const {
  double sum = 0.0;
  for (int drafts = 0; drafts <= s.num_drafted(); ++drafts) sum = typical_ * sum + standing_[idx(drafts)];
  return proposing_.mean * std::max(0.0, sum - s.plan.survival);
}

// By how many seconds a pass gets longer if this sequence gets `more` drafts after num_drafted. Columns up to the
// longest draft are paid for already.
double AdaptiveDraftLength::longer_pass(int num_drafted, int more) const {
  const auto longest = idx(std::max(longest_, num_drafted));
  return target_pass_[std::max(longest, idx(num_drafted + more))] - target_pass_[longest];
}

// By how many seconds a pass of the draft model gets longer because it must read tokens that it did not draft. They
// have to be read once if the model is used again at all, so the cycles that will use it share the cost.
double AdaptiveDraftLength::catch_up(int num_unread) const {
  if (num_unread <= 2 || fills_blocks_) return 0.0;  // the pass that fills a block reads what was accepted
  return std::max(0.0, draft_costs_.seconds(num_sequences_ - 1 + num_unread) - draft_pass_) / options_.catch_up_lasts;
}

// drafting: seconds of the draft's passes before the next draft.
bool AdaptiveDraftLength::pays(const Sequence& s, double next_acceptance, double drafting, bool row_is_known) const {
  const int num_drafted = s.num_drafted();
  if (row_is_known && num_drafted < longest_) return true;  // another sequence's longer draft has paid for this column
  const double rate = tokens_per_second(by_model);
  double tokens = 0.0, next = s.plan.survival * next_acceptance + survival_of_others(s) * typical_;
  for (int more = 1; idx(num_drafted + more) < target_pass_.size(); ++more) {
    tokens += next;
    if (tokens > rate * (drafting + longer_pass(num_drafted, more))) return true;
    next *= typical_;
    if (!fills_blocks_) drafting += draft_pass_;
  }
  return false;
}

bool AdaptiveDraftLength::stops(const Sequence& s) {
  standing_[s.plan.places.size()] -= s.plan.survival;
  return false;
}

// The most seconds that drafts of the model can save after num_drafted drafts. tokens: expected from the first of them.
double AdaptiveDraftLength::seconds_gained_by_model(double next, int num_drafted, int num_unread, double rate) const {
  double most = 0.0, tokens = 0.0, drafting = num_unread > 0 ? draft_pass_ + catch_up(num_unread) : 0.0;
  for (int more = 1; idx(num_drafted + more) < target_pass_.size(); ++more) {
    tokens += next;
    next *= typical_;
    if (more > 1 && !fills_blocks_) drafting += draft_pass_;
    most = std::max(most, tokens / rate - drafting - longer_pass(num_drafted, more));
  }
  return most;
}

int AdaptiveDraftLength::best_number_of_copies(const Sequence& s, const std::vector<Copy>& copies,
                                               int num_unread) const {
  if (target_pass_.empty()) return 0;
  const int num_drafted = s.num_drafted();
  const double copying_rate = tokens_per_second(by_copying), drafting_rate = tokens_per_second(by_model);
  const bool has_model = num_unread != no_draft_model, has_row = num_unread == 0;
  double tokens = 0.0, survival = s.plan.survival, others = survival_of_others(s);
  double most =
      has_model ? seconds_gained_by_model(typical_ * (survival + others), num_drafted, num_unread, copying_rate) : 0.0;
  int best = 0;
  for (int count = 1; count <= static_cast<int>(copies.size()); ++count) {
    if (idx(num_drafted + count) >= target_pass_.size()) break;
    survival *= probability_of(copies[idx(count - 1)]);
    others *= typical_;
    tokens += survival + others;
    double gained = tokens / copying_rate - longer_pass(num_drafted, count);
    if (has_model)
      gained += seconds_gained_by_model(typical_ * (survival + others), num_drafted + count,
                                        has_row ? 0 : num_unread + count, drafting_rate);
    if (gained > most) most = gained, best = count;
  }
  return best;
}

int AdaptiveDraftLength::worth_copying(Sequence& s, const std::vector<Copy>& copies, int num_unread) {
  const int num_drafted = s.num_drafted(), num_copies = static_cast<int>(copies.size());
  int count = best_number_of_copies(s, copies, num_unread);
  if (has_model_) {
    if (count > 0) trial_ = -1;  // trials are for drafts of the model
  } else if (trial_ >= 0) {
    count = std::clamp(trial_ - num_drafted, 0, num_copies);
  }
  if (num_drafted == 0 && (count > 0 || !has_model_)) ++num_proposing_;
  is_copying_ = is_copying_ || count > 0;
  for (int i = 0; i < count; ++i) {
    const Copy& copy = copies[idx(i)];
    add_row(copy);
    add_place(s, {copy.confidence, copy.confidence}, probability_of(copy));
  }
  if (count == num_copies) return count;
  const Copy& next = copies[idx(count)];
  add_row(next);
  s.plan.withheld.push_back({num_drafted + count, next.token, next.origin, next.confidence});
  if (num_unread == no_draft_model) stops(s);
  return count;
}

// A certain draft costs only its column of the target's pass.
bool AdaptiveDraftLength::worth_a_certain_draft(Sequence& s) {
  const int num_drafted = s.num_drafted();
  if (idx(num_drafted) + 1 >= target_pass_.size()) return false;
  if (s.plan.survival <= tokens_per_second(by_model) * longer_pass(num_drafted, 1)) return false;
  if (num_drafted == 0) ++num_proposing_;
  add_place(s, {1.0, 1.0}, 1.0);
  return true;
}

bool AdaptiveDraftLength::worth_a_row(const Sequence& s, int num_unread) {
  has_model_ = true;
  fills_blocks_ = fills_blocks_ || num_unread == 0;
  const double drafting = num_unread == 0 ? 0.0 : draft_pass_ + catch_up(num_unread);
  if (trial_ >= 0 ? s.num_drafted() < trial_ : pays(s, typical_, drafting, false)) return true;
  if (s.num_drafted() == 0) ++num_not_asked_;
  return stops(s);
}

// Saved by the best number of drafts if their acceptance is typical.
double AdaptiveDraftLength::seconds_saved_per_token() const {
  const double plain = target_costs_.seconds(num_sequences_), draft = draft_costs_.seconds(num_sequences_);
  double best = plain, tokens = 1.0, next = 1.0;
  for (int k = 1; k <= options_.longest_tried; ++k) {
    tokens += next *= model_.typical();
    best = std::min(best, (num_passes(k) * draft + target_costs_.seconds(columns(k))) / tokens);
  }
  return plain - best;
}

// All sequences wait while a long text is read. The longer an output is, the more of it is still to come. Reading that
// does not seem to pay has a budget, as trials have: otherwise "auto" would never learn that it pays by now.
bool AdaptiveDraftLength::worth_catching_up(const Sequence& s, int num_unread) {
  const double cost = num_sequences_ * reading_ * num_unread;
  const double tokens =
      std::min(static_cast<double>(s.remaining), options_.expected_tokens + static_cast<double>(s.stats.tokens));
  if (cost <= reading_budget_ || cost <= tokens * seconds_saved_per_token()) return true;
  dearest_ = std::max(dearest_, cost);
  return false;
}

void AdaptiveDraftLength::record_catching_up(int num_tokens, double seconds) {
  const double latest = seconds / num_tokens;
  reading_ = reading_ > 0.0 ? 0.5 * (reading_ + latest) : latest;
  reading_budget_ = std::max(0.0, reading_budget_ - num_sequences_ * seconds);
}

bool AdaptiveDraftLength::worth_a_draft(const Sequence& s, double row_confidence) {
  const double acceptance = model_.of_row(row_confidence);
  if (s.num_drafted() == 0) ++num_proposing_;
  model_.add_row(row_confidence);
  return (trial_ >= 0 ? s.num_drafted() < trial_ : pays(s, acceptance, 0.0, true)) || stops(s);
}

// A chain is a tree, too. But while no pass was measured, nothing is known of what a further node costs.
bool AdaptiveDraftLength::worth_a_tree(const Sequence& s, int num_unread, bool fills_blocks) {
  has_model_ = true;
  fills_blocks_ = fills_blocks_ || fills_blocks;
  if (target_costs_.empty() || draft_costs_.empty()) return false;
  return pays(s, typical_, draft_pass_ + catch_up(num_unread), false);
}

// Trials are of chains, where nothing pays; trees differ in size anyway.
void AdaptiveDraftLength::begin_tree() {
  trial_ = -1;
  ++num_proposing_;
  longest_ = 1;
}

void AdaptiveDraftLength::judged(DraftOrigin origin, const DraftPlan::Confidence& confidence, bool accepted) {
  Acceptance& acceptance = acceptance_of(origin);
  acceptance.add_row(confidence.row);
  acceptance.learn(confidence, accepted);
}

int AdaptiveDraftLength::largest_tree() const {
  return std::min(max_draft_tokens, static_cast<int>(options_.leap * target_costs_.longest()));
}

// The running cycle counts as well, as far as the tree has grown: when little is known, most of all.
double AdaptiveDraftLength::tokens_per_second(const GrowingTree& tree) const {
  const double seconds = target_costs_.seconds(columns(tree.num_drafted)) + draft_seconds_;
  return tokens_per_second(tree.is_copied ? by_copying : by_model,
                           {num_sequences_ * (1.0 + tree.accepted), seconds, num_sequences_ * seconds});
}

// Chooses the number of drafts that together gain the most: the costs of passes have steps, beyond which one draft
// alone never pays.
DraftPrice AdaptiveDraftLength::price_of_drafts(const GrowingTree& tree, std::vector<double>& next) const {
  constexpr int most_more = 12;
  constexpr double unknown = 1.0 / 16.0;
  if (target_costs_.empty()) return {unknown, unknown};
  const double rate = tokens_per_second(tree) / num_sequences_, now = target_costs_.seconds(columns(tree.num_drafted));
  DraftPrice price{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  std::make_heap(next.begin(), next.end());
  double gained = 0.0, most = 0.0;
  for (int more = 1; more <= most_more && !next.empty(); ++more) {
    std::pop_heap(next.begin(), next.end());
    const double chance = next.back();
    next.back() *= typical_;
    std::push_heap(next.begin(), next.end());
    gained += chance;
    const double cost = rate * (target_costs_.seconds(columns(tree.num_drafted + more)) - now);
    if (gained - cost > most) most = gained - cost, price = {chance, cost / more};
  }
  return price;
}

double AdaptiveDraftLength::worth_of_draft_pass(const GrowingTree& tree, int num_nodes) const {
  if (target_costs_.empty() || draft_costs_.empty()) return 0.0;
  return worth_of(draft_costs_.seconds(num_sequences_ * num_nodes), tree) / num_sequences_;
}

void AdaptiveDraftLength::drafted(Sequence& s, DraftPlan::Confidence confidence) {
  add_place(s, confidence, model_.of_draft(confidence.draft));
}

void AdaptiveDraftLength::add_place(Sequence& s, DraftPlan::Confidence confidence, double acceptance) {
  const std::size_t place = s.plan.places.size();
  standing_.resize(std::max(standing_.size(), place + 2));
  standing_[place] -= s.plan.survival;
  s.plan.survival *= acceptance;
  standing_[place + 1] += s.plan.survival;
  s.plan.places.push_back(confidence);
  longest_ = std::max(longest_, static_cast<int>(place) + 1);
}

void AdaptiveDraftLength::record_draft_pass(int num_rows, int num_tokens, double seconds) {
  // After a cycle that accepted all drafts there is one token more to read than usual; the pass that fills a block
  // reads all accepted ones.
  const int usual = fills_blocks_ ? max_draft_tokens + 1 : 2;
  const int size = num_tokens <= usual * num_rows ? num_rows : num_tokens;
  draft_costs_.record(size, seconds);
  draft_seconds_ += draft_costs_.seconds(size);
  catch_up_seconds_ += draft_costs_.seconds(size) - draft_costs_.seconds(num_rows);
}

// Drafts after the first rejected one were not judged.
void AdaptiveDraftLength::observe(const Sequence& s, int num_accepted, Token target_token) {
  const int num_drafted = static_cast<int>(s.plan.places.size());
  for (int place = 0; place < std::min(num_accepted + 1, num_drafted); ++place) {
    const auto i = idx(place);
    if (s.origins[i] == DraftOrigin::constraint) continue;  // certain
    acceptance_of(s.origins[i]).learn(s.plan.places[i], place < num_accepted);
  }
  for (const DraftPlan::Withheld& copy : s.plan.withheld) {
    if (copy.place > num_accepted) continue;
    const Token token = copy.place == num_accepted ? target_token : s.tokens[idx(s.num_committed + copy.place)];
    acceptance_of(copy.origin).learn({copy.confidence, copy.confidence}, copy.token == token);
  }
}

void AdaptiveDraftLength::end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) {
  // The first cycle is not recorded, because caches and pages are cold: plain decoding, which is not measured again,
  // would look expensive for a long time.
  if (std::exchange(is_first_, false)) return;
  seconds_run_ += seconds;
  const bool is_change = num_scored != target_costs_.latest();
  // Other programs slowed the earlier process down. A draft's short passes suffer most, so they are measured again.
  if (std::exchange(is_known_, false) &&
      options_.busy_before * (seconds - propose_seconds) < target_costs_.seconds(num_scored))
    draft_costs_ = PassCosts(options_.costs);
  target_costs_.record(num_scored, seconds - propose_seconds);
  model_.forget();
  text_.forget();
  const double undisturbed =
      target_costs_.seconds(num_scored) + (is_change ? target_costs_.change() : 0.0) + draft_seconds_;
  for (Recent& recent : recent_) {
    recent.tokens *= options_.memory, recent.seconds *= options_.memory, recent.sequence_seconds *= options_.memory;
  }
  recent_[is_copying_ ? by_copying : by_model].add(
      1.0, {static_cast<double>(num_made), undisturbed, num_sequences_ * undisturbed});
  const int num_asked = num_sequences_ - num_not_asked_;
  if (num_asked > 0) proposing_.add(static_cast<double>(num_proposing_) / num_asked, 1.0 / (1.0 - options_.memory));

  // A trial may cost more than expected, because a draft model that was not used for long must first read the tokens it
  // missed; then the budget goes negative. It is capped at the cost of one trial, so that trials never come in a row.
  const double one_trial = target_costs_.seconds(num_sequences_) + draft_pass_;
  const double grown = seconds_run_ / (options_.trials_grow * target_costs_.seconds(num_sequences_));
  budget_ = std::min(one_trial, budget_ + std::min(1.0, grown) * options_.trial_share * undisturbed);
  reading_budget_ = std::min(dearest_, reading_budget_ + options_.trial_share * undisturbed);
  if (trial_ == 0) budget_ -= trial_loss_;
  if (trial_ > 0 && longest_ > 0)
    budget_ -= trial_loss_ + catch_up_seconds_ + std::max(0.0, propose_seconds - draft_seconds_);
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
    const double time = num_passes(k) * outlook.cost_of_draft + target_costs_.seconds(k + 1) / outlook.plain_seconds;
    outlook.speedup = std::max(outlook.speedup, tokens / time);
  }
  return outlook;
}

}  // namespace specdec
