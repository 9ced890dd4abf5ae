// The distribution ("law") of the output, by exact enumeration through the real loop: every uniform it requests takes
// one value from each interval on which the outcome is constant, weighted by the interval's length. The intervals are
// computed here from the tables, independently of the loop.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "check.h"
#include "draft_rule.h"
#include "explorer.h"
#include "sampling/enumerate.h"
#include "sampling/gumbel_max.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/block_drafter.h"
#include "speculative/combined_proposer.h"
#include "speculative/copies.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/drafting_head.h"
#include "speculative/layered_head.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"
#include "toy_blocks.h"
#include "toy_constraint.h"
#include "toy_head.h"
#include "toy_model.h"
#include "toy_window.h"

namespace {

using namespace specdec;
using sampling::Distribution;
using sampling::Purpose;
using sampling::SamplingParams;
using Tokens = std::vector<Token>;
using Law = std::map<Tokens, double>;
using toy::Explorer;

struct Setting {
  int vocabulary = 2;
  int draft_vocabulary = 2;
  int num_draft_tokens = 2;
  int length = 2;            // L: tokens whose law is compared
  bool exact_length = true;  // max_tokens = L (K is clipped near the end); false: more than L
  SamplingParams params;
  std::uint64_t seed = 1;
  Verification verification = Verification::token;
  Drafting drafting = Drafting::sampled;
  int window = 4;        // of Draft::window
  toy::Allowed allowed;  // of a constraint; none: not constrained
  sampling::TokenRules rules;
};

Tokens prompt = {0, 1, 0};
std::vector<Picture> pictures;               // of the prompt
const Tokens earlier_output = {1, 0, 1, 1};  // of another sequence

// The logits of forbidden tokens become -inf before all transforms. xtc_draw: of the place.
Distribution distribution_after(const toy::Model& model, const Setting& setting, const Tokens& context,
                                double xtc_draw = 1.0) {
  Distribution out;
  std::vector<float> logits = model.logits_after(context);
  if (setting.allowed) {
    const std::uint32_t allowed =
        setting.allowed(Tokens(context.begin() + static_cast<std::ptrdiff_t>(prompt.size()), context.end()));
    for (std::size_t token = 0; token < logits.size(); ++token) {
      if ((allowed >> token & 1u) == 0) logits[token] = -INFINITY;
    }
  }
  sampling::Transforms(setting.params, setting.rules)
      .apply(logits.data(), std::min(setting.vocabulary, model.vocabulary_size()), context.data(),
             static_cast<int>(context.size()), out, nullptr, xtc_draw);
  return out;
}

// The law of XTC: the rows without the top choices with its probability, else all of them.
Distribution law_after(const toy::Model& model, const Setting& setting, const Tokens& context) {
  const double share = setting.params.uses_xtc() ? setting.params.xtc_probability : 0.0;
  const Distribution without = distribution_after(model, setting, context, 0.0);
  Distribution law = distribution_after(model, setting, context, 1.0);
  for (std::size_t i = 0; i < law.tokens.size(); ++i)
    law.probs[i] = share * without.probability(law.tokens[i]) + (1.0 - share) * law.probs[i];
  return law;
}

SamplingParams plain() {
  SamplingParams params;
  params.temperature = 1.0;
  params.top_k = 0;
  params.top_p = 1.0;
  params.min_p = 0.0;
  return params;
}

// What is known of the random numbers of a seed. Sequences with the same seed share it.
struct Seed {
  std::map<std::tuple<std::int64_t, int, Purpose>, Explorer::Interval> uniforms;
  std::map<std::int64_t, double> fractions;  // v of a position, see gumbel_bits
};

// Uniforms chosen by the explorer. The state of the sequence at the time of the call gives their breakpoints.
class EnumeratedUniforms final : public sampling::UniformSource {
 public:
  EnumeratedUniforms(Explorer& explorer, const toy::Model& target, const toy::Model& draft, const Setting& setting,
                     std::shared_ptr<Seed> seed = std::make_shared<Seed>())
      : explorer_(explorer), target_(target), draft_(draft), setting_(setting), seed_(std::move(seed)) {}
  const Sequence* sequence = nullptr;

  double uniform(std::int64_t position, int place, Purpose purpose) const override {
    const bool is_shared = purpose == Purpose::draft && draft_uses_xtcs_number;
    const auto key = is_shared ? std::tuple(position + place, 0, Purpose::xtc) : std::tuple(position, place, purpose);
    number_ = &seed_->uniforms.try_emplace(key, 0.0, 1.0).first->second;
    if (purpose == Purpose::xtc) {
      const auto [begin, end] = *number_;
      const double probability = setting_.params.xtc_probability;
      return begin < probability && probability < end ? choose({probability}) : 0.5 * (begin + end);  // or decided
    }
    const Tokens& tokens = sequence->tokens;
    const auto context = [&](int at) { return Tokens(tokens.begin(), tokens.begin() + position + at); };
    CHECK(position == sequence->num_committed);
    if (purpose == Purpose::draft) {
      CHECK(place == sequence->num_drafted());
      rejected_at_ = -1;
      return choose(cdf(dense(draft_row(context(place)))));
    }
    if (setting_.verification == Verification::block) return block_uniform(place, purpose, context);
    if (purpose == Purpose::accept) {
      const Token token = tokens[static_cast<std::size_t>(position + place)];
      const double target_prob = target_row(context(place)).probability(token);
      const double draft_prob = recorded(place).probability(token);
      const double u = choose({std::min(1.0, target_prob / draft_prob)});
      rejected_at_ = u * draft_prob < target_prob ? -1 : place;
      return u;
    }
    if (rejected_at_ < 0) return choose(cdf(dense(target_row(context(sequence->num_drafted())))));
    std::vector<double> rest = excess(1.0, context(rejected_at_), rejected_at_);
    const double total = sum(rest);
    for (double& p : rest) p /= total;
    rejected_at_ = -1;
    return choose(cdf(rest));
  }

  // Tokens 0 and 1 only: token 1 is chosen iff v = E1 / (E0 + E1), which is uniform, is below its probability. All rows
  // that can be sampled at this position share v, so each of them contributes breakpoints.
  sampling::PhiloxCounter gumbel_bits(std::int64_t position, std::int32_t, sampling::GumbelBits half) const override {
    CHECK(setting_.vocabulary == 2);
    if (noise_ignores_position) position = 0;
    if (seed_->fractions.count(position) == 0) {
      std::vector<double> breakpoints;
      const std::int64_t length = noise_ignores_position ? setting_.length - 1 : position - sequence_start;
      for (int bits = 0; bits < 1 << length; ++bits) {
        Tokens context(sequence->tokens.begin(), sequence->tokens.begin() + sequence_start);
        for (std::int64_t i = 0; i <= length; ++i) {
          if (noise_ignores_position || i == length) {
            for (const double xtc_draw : {0.0, 1.0}) {
              breakpoints.push_back(distribution_after(draft_, setting_, context, xtc_draw).probability(1));
              breakpoints.push_back(distribution_after(target_, setting_, context, xtc_draw).probability(1));
            }
          }
          context.push_back(bits >> i & 1);
        }
      }
      Explorer::Interval interval = {0.0, 1.0};
      seed_->fractions[position] = explorer_.choose(breakpoints, interval);
    }
    const double fraction = seed_->fractions[position], ratio = fraction / (1.0 - fraction);  // E1 / E0
    sampling::PhiloxCounter words{};
    for (const std::size_t token : {0u, 1u}) {
      const double exponential = token == 0 ? std::min(1.0, 1.0 / ratio) : std::min(1.0, ratio);
      const auto bits = static_cast<std::uint64_t>(-std::expm1(-exponential) * 0x1p53)
                        << 11;  // as uniform53 reads them
      words[token] = static_cast<std::uint32_t>(half == sampling::GumbelBits::high ? bits >> 32 : bits);
    }
    return words;
  }

  std::int64_t sequence_start = 0;      // length of the prompt
  bool noise_ignores_position = false;  // a negative control
  bool draft_uses_xtcs_number = false;  // a negative control

 private:
  double choose(std::vector<double> breakpoints) const { return explorer_.choose(std::move(breakpoints), *number_); }

  // Sun et al., algorithm 2: p_i and h_i written from the paper.
  template <class Context>
  double block_uniform(int place, Purpose purpose, const Context& context) const {
    const int num_drafted = sequence->num_drafted();
    const auto p = [&](int length) {
      double product = 1.0;
      for (int i = 0; i < length; ++i) {
        const Token token = sequence->tokens[static_cast<std::size_t>(sequence->num_committed + i)];
        product = std::min(1.0, product * target_row(context(i)).probability(token) / recorded(i).probability(token));
      }
      return product;
    };
    if (purpose == Purpose::accept) {
      const int length = place + 1;
      double h = p(length);
      if (length < num_drafted) {
        const double rest = sum(excess(p(length), context(length), length));
        h = rest > 0.0 ? rest / (rest + 1.0 - p(length)) : 0.0;
      }
      const double u = choose({h});
      if (u < h) kept_ = length;
      return u;
    }
    const int kept = kept_;
    kept_ = 0;
    if (kept == num_drafted) return choose(cdf(dense(target_row(context(kept)))));
    std::vector<double> rest = excess(p(kept), context(kept), kept);
    const double total = sum(rest);
    if (!(total > 0.0)) return choose({});  // reached by rounding only
    for (double& prob : rest) prob /= total;
    return choose(cdf(rest));
  }

  // max(0, weight * target - draft) at a place.
  std::vector<double> excess(double weight, const Tokens& context, int place) const {
    std::vector<double> rest = dense(target_row(context));
    const std::vector<double> proposed = dense(recorded(place));
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = std::max(0.0, weight * rest[i] - proposed[i]);
    return rest;
  }
  static double sum(const std::vector<double>& row) {
    double total = 0.0;
    for (const double p : row) total += p;
    return total;
  }
  // The distribution that the proposer recorded. The thresholds follow from it; if it is wrong, the law is.
  const Distribution& recorded(int place) const { return sequence->draft_probs[static_cast<std::size_t>(place)]; }
  Distribution draft_row(const Tokens& context) const {
    return distribution_after(draft_, setting_, context, xtc_draw_after(context));
  }
  Distribution target_row(const Tokens& context) const {
    return distribution_after(target_, setting_, context, xtc_draw_after(context));
  }
  // What the loop gets, too; asking for it must not disturb the number that is asked for.
  double xtc_draw_after(const Tokens& context) const {
    Explorer::Interval* const asked_for = number_;
    const double draw = sequence->xtc_draw(static_cast<int>(context.size()));
    number_ = asked_for;
    return draw;
  }
  std::vector<double> dense(const Distribution& d) const {
    std::vector<double> row(static_cast<std::size_t>(setting_.vocabulary), 0.0);
    for (std::size_t i = 0; i < d.tokens.size(); ++i) row[static_cast<std::size_t>(d.tokens[i])] = d.probs[i];
    return row;
  }
  static std::vector<double> cdf(const std::vector<double>& probs) {
    std::vector<double> sums;
    double total = 0.0;
    for (const double p : probs) sums.push_back(total += p);
    sums.pop_back();
    return sums;
  }

  Explorer& explorer_;
  const toy::Model& target_;
  const toy::Model& draft_;
  const Setting& setting_;
  mutable int rejected_at_ = -1;  // token verification
  mutable int kept_ = 0;          // block verification
  std::shared_ptr<Seed> seed_;
  mutable Explorer::Interval* number_ = nullptr;  // the one that is asked for
};

enum class Draft {
  model,
  ngram,
  suffix,
  combined,
  head,
  head_and_copies,
  layered_head,
  layered_head_and_copies,
  window,
  window_and_copies,
  block,
  biased_block,
  block_and_copies
};

// A rule that stops before the next place, depending on the drafts so far and on the draft's next row.
using Rule = bool (*)(const Sequence&, const Distribution& next_row);
// Drafts until the rule says stop; may draft nothing at all.
class StoppingProposer final : public Proposer {
 public:
  StoppingProposer(const toy::Model& draft, const Setting& setting, Rule rule)
      : draft_(draft), setting_(setting), rule_(rule) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats&) override {
    Sequence& s = *requests.front().sequence;
    for (int place = 0; place < requests.front().num_tokens; ++place) {
      const Distribution next_row = distribution_after(draft_, setting_, s.tokens);
      if (rule_(s, next_row)) return;
      Distribution& row = s.draft_row(place);
      row = next_row;
      const auto position = static_cast<std::int64_t>(s.tokens.size());
      if (s.drafting == Drafting::argmax) {
        const auto best = std::max_element(row.probs.begin(), row.probs.end()) - row.probs.begin();
        row.set_one_hot(row.tokens[static_cast<std::size_t>(best)]);
        s.add_draft(row.tokens[0], DraftOrigin::model);
      } else if (s.verification == Verification::invariant) {
        s.add_draft(sampling::gumbel_max(row, *s.uniforms, position), DraftOrigin::model);
      } else {
        s.add_draft(sampling::draw(row, s.uniforms->uniform(s.num_committed, place, Purpose::draft)),
                    DraftOrigin::model);
      }
    }
  }
  int room(int) const override { return max_draft_tokens; }
  void prefill(const Sequence&, int) override {}
  void truncate(int, int) override {}
  void copy(int, int) override {}

 private:
  const toy::Model& draft_;
  const Setting& setting_;
  Rule rule_;
};
// A modification of the real proposer's drafts for negative controls; the law must then be wrong.
using Tamper = void (*)(Sequence&);

class TamperedProposer final : public Proposer {
 public:
  TamperedProposer(Proposer& real, Tamper tamper) : real_(real), tamper_(tamper) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override {
    real_.propose(requests, stats);
    for (const ProposalRequest& request : requests) tamper_(*request.sequence);
  }
  int room(int n) const override { return real_.room(n); }
  void prefill(const Sequence& s, int length) override { real_.prefill(s, length); }
  void truncate(int slot, int length) override { real_.truncate(slot, length); }
  void copy(int from, int to) override { real_.copy(from, to); }

 private:
  Proposer& real_;
  Tamper tamper_;
};

// Stops by permitted information: the drafts so far and the row of the next place, before anything is sampled from it.
class ArbitraryRule final : public toy::DraftRule {
 public:
  int worth_copying(Sequence& s, const std::vector<Copy>& copies, int) override {
    return std::min(static_cast<int>(copies.size()), static_cast<int>(toy::mix(hash(s)) % 3));
  }
  bool worth_a_row(const Sequence& s, int) override { return s.num_drafted() < 4 && hash(s) % 4 != 0; }
  bool worth_a_draft(const Sequence& s, double row_confidence) override {
    return toy::mix(hash(s) + static_cast<std::uint64_t>(1e6 * row_confidence)) % 3 != 0;
  }

 private:
  static std::uint64_t hash(const Sequence& s) {
    std::uint64_t h = 77;
    for (const Token token : s.tokens) h = toy::mix(h ^ static_cast<std::uint64_t>(token));
    return h;
  }
};

// The real rule with made-up pass times, so that the same path of choices always meets the same decisions.
class TimelessRule final : public DraftLength {
 public:
  TimelessRule() {
    begin_cycle(1);
    for (const int num_scored : {1, 1, 3}) end_cycle(num_scored, 1, 0.0, 0.0);  // the first does not count
  }
  void begin_cycle(int num_sequences) override { rule_.begin_cycle(num_sequences); }
  int longest_draft() const override { return rule_.longest_draft(); }
  int worth_copying(Sequence& s, const std::vector<Copy>& copies, int num_unread) override {
    return rule_.worth_copying(s, copies, num_unread);
  }
  bool worth_a_certain_draft(Sequence& s) override { return rule_.worth_a_certain_draft(s); }
  bool worth_a_row(const Sequence& s, int num_unread) override { return rule_.worth_a_row(s, num_unread); }
  bool worth_a_draft(const Sequence& s, double row_confidence) override {
    return rule_.worth_a_draft(s, row_confidence);
  }
  void drafted(Sequence& s, DraftPlan::Confidence confidence) override { rule_.drafted(s, confidence); }
  void record_draft_pass(int num_rows, int num_tokens, double) override {
    rule_.record_draft_pass(num_rows, num_tokens, 0.1);
  }
  void observe(const Sequence& s, int num_accepted, Token token) override { rule_.observe(s, num_accepted, token); }
  void end_cycle(int num_scored, int num_made, double, double) override {
    rule_.end_cycle(num_scored, num_made, 0.75 + 0.2 * num_scored, 0.0);
  }

 private:
  AdaptiveDraftLength rule_;
};

using MakeDraftLength = std::unique_ptr<DraftLength> (*)();

// Distribution of the first L tokens, over every choice the loop can make.
struct Replacements {
  Tamper tamper = nullptr;
  Rule rule = nullptr;
  toy::Model* target = nullptr;
  toy::Model* draft = nullptr;
  bool noise_ignores_position = false;
  bool draft_uses_xtcs_number = false;
  MakeDraftLength draft_length = nullptr;
  std::map<int, int>* lengths = nullptr;                  // counts cycles by their number of drafts
  std::set<std::vector<DraftOrigin>>* origins = nullptr;  // of the drafts of a cycle
  bool forgets_to_roll_back = false;                      // the constraint
  bool in_company = false;  // batched with other sequences before and after it, with fixed random numbers
};

Law law_of_loop(const Setting& setting, Draft kind, const Replacements& replace = {}) {
  Law law;
  Explorer explorer;
  double total = 0.0;
  do {
    explorer.restart();
    toy::Model target(setting.vocabulary, setting.seed, 64, 64, 3),
        draft(setting.draft_vocabulary, setting.seed + 1000, 64, 64, 3);
    if (replace.target) target.table = replace.target->table;
    if (!pictures.empty()) target.picture_key = pictures.front().key;
    if (replace.draft) draft.table = replace.draft->table;
    DraftModelProposer model_proposer(draft, setting.vocabulary);
    NgramProposer ngram_proposer;
    SuffixProposer suffix_proposer;
    suffix_proposer.remember(earlier_output.data(), static_cast<int>(earlier_output.size()));
    CombinedProposer combined_proposer({draft, setting.vocabulary}, nullptr, CopiedTexts::all, 0.3);
    combined_proposer.remember(earlier_output.data(), static_cast<int>(earlier_output.size()));
    toy::HeadLayers layers(setting.draft_vocabulary, setting.seed + 1000, 64, 64, 3);
    DraftingHead head(target, layers, 3);
    DraftModelProposer head_proposer(head, setting.vocabulary);
    CombinedProposer head_and_copies({head, setting.vocabulary}, nullptr, CopiedTexts::all, 0.3);
    head_and_copies.remember(earlier_output.data(), static_cast<int>(earlier_output.size()));
    toy::HeadLayers second(setting.draft_vocabulary, setting.seed + 2000, 64, 64, 3);
    const std::vector<const toy::HeadLayers*> both = {&layers, &second};
    LayeredHead layered(target, {&layers, &second}, 3);
    DraftModelProposer layered_proposer(layered, setting.vocabulary);
    CombinedProposer layered_and_copies({layered, setting.vocabulary}, nullptr, CopiedTexts::all, 0.3);
    layered_and_copies.remember(earlier_output.data(), static_cast<int>(earlier_output.size()));
    toy::WindowModel windowed(setting.draft_vocabulary, setting.seed + 1000, setting.window, 64, 3);
    windowed.keeps_values = false;
    DraftModelProposer window_proposer(windowed, setting.vocabulary, setting.window);
    CombinedProposer window_and_copies({windowed, setting.vocabulary, setting.window}, nullptr, CopiedTexts::all, 0.3);
    window_and_copies.remember(earlier_output.data(), static_cast<int>(earlier_output.size()));
    const bool is_biased = kind != Draft::block;
    const int num_places = std::min(setting.num_draft_tokens, 3);
    toy::BlockLayers block_layers(setting.draft_vocabulary, setting.seed + 1000, 3, is_biased, 3);
    BlockDrafter drafter(target, block_layers, 3);
    DraftModelProposer block_proposer(drafter, setting.vocabulary);
    CombinedProposer block_and_copies({drafter, setting.vocabulary}, nullptr, CopiedTexts::all, 0.3);
    block_and_copies.remember(earlier_output.data(), static_cast<int>(earlier_output.size()));
    const bool is_head = kind == Draft::head || kind == Draft::head_and_copies, is_block = kind >= Draft::block;
    const bool is_layered = kind == Draft::layered_head || kind == Draft::layered_head_and_copies;
    const Sequence* enumerated = nullptr;
    // Drafts have no rows of the target yet, so the head's distribution depends on where they begin.
    if (is_head)
      draft.table = [&](const Tokens& text) {
        return layers.logits_after(layers.expected(text, enumerated->num_committed));
      };
    if (is_layered)
      draft.table = [&](const Tokens& text) {
        return toy::layered_logits_after(both, text, enumerated->num_committed);
      };
    if (is_block) {
      draft.table = [&](const Tokens& text) {
        const int places = replace.draft_length ? 3 : num_places;
        return block_layers.logits_after(text, enumerated->num_committed, places);
      };
    }
    if (kind == Draft::window || kind == Draft::window_and_copies) {
      draft.table = [&](const Tokens& text) {
        const int begin = DraftWindow(windowed, setting.window).begin(static_cast<int>(text.size()) - 1);
        return toy::Model(setting.draft_vocabulary, setting.seed + 1000)
            .logits_after(Tokens(text.begin() + begin, text.end()));
      };
    }
    Proposer* const proposers[] = {&model_proposer,  &ngram_proposer,    &suffix_proposer,  &combined_proposer,
                                   &head_proposer,   &head_and_copies,   &layered_proposer, &layered_and_copies,
                                   &window_proposer, &window_and_copies, &block_proposer,   &block_proposer,
                                   &block_and_copies};
    Proposer* proposer = proposers[static_cast<std::size_t>(kind)];
    StoppingProposer stopping_proposer(draft, setting, replace.rule);
    if (replace.rule) proposer = &stopping_proposer;
    TamperedProposer tampered(*proposer, replace.tamper);
    const std::unique_ptr<DraftLength> draft_length = replace.draft_length ? replace.draft_length() : nullptr;
    LanguageModel& target_of_drafts = is_head      ? head.target()
                                      : is_layered ? layered.target()
                                      : is_block   ? drafter.target()
                                                   : target;
    Decoder decoder(target_of_drafts, replace.tamper ? &tampered : proposer, draft_length.get());

    auto uniforms = std::make_unique<EnumeratedUniforms>(explorer, target, draft, setting);
    EnumeratedUniforms& source = *uniforms;
    constexpr int slot = 1;
    Sequence sequence(slot, setting.params, std::move(uniforms), setting.rules);
    source.sequence = enumerated = &sequence;
    source.sequence_start = static_cast<std::int64_t>(prompt.size());
    source.noise_ignores_position = replace.noise_ignores_position;
    source.draft_uses_xtcs_number = replace.draft_uses_xtcs_number;
    sequence.verification = setting.verification;
    sequence.drafting = setting.drafting;
    sequence.tokens = prompt;
    sequence.pictures = pictures;
    sequence.num_committed = static_cast<int>(prompt.size());
    sequence.num_draft_tokens = replace.draft_length ? auto_draft_tokens : setting.num_draft_tokens;
    sequence.remaining = setting.exact_length ? setting.length : 60;
    if (setting.allowed) {
      auto constraint = std::make_unique<toy::Constraint>(setting.vocabulary, setting.allowed);
      constraint->forgets_to_roll_back = replace.forgets_to_roll_back;
      sequence.constraint =
          std::make_unique<sampling::ConstraintState>(std::move(constraint), static_cast<int>(prompt.size()));
    }
    decoder.prefill(sequence);
    Sequence before(0, setting.params, std::make_unique<sampling::PhiloxUniforms>(setting.seed, 1));
    Sequence after(2, setting.params, std::make_unique<sampling::PhiloxUniforms>(setting.seed, 2));
    std::vector<Sequence*> running = {&sequence};
    if (replace.in_company) running = {&before, &sequence, &after};
    for (Sequence* other : {&before, &after}) {
      other->tokens = {0, 1};
      other->num_committed = 2;
      other->num_draft_tokens = sequence.num_draft_tokens;
      other->remaining = 40;
      if (replace.in_company) decoder.prefill(*other);
    }
    const int wanted = static_cast<int>(prompt.size()) + setting.length;
    while (sequence.num_committed < wanted) {
      const std::int64_t drafted_before = sequence.stats.drafted;
      decoder.cycle(running);
      if (sequence.error) std::rethrow_exception(sequence.error);
      const auto drafted = static_cast<int>(sequence.stats.drafted - drafted_before);
      if (replace.lengths) ++(*replace.lengths)[drafted];
      if (replace.origins) replace.origins->emplace(sequence.origins.begin(), sequence.origins.begin() + drafted);
      CHECK(target.cache(slot) == Tokens(sequence.tokens.begin(), sequence.tokens.end() - 1));
      CHECK(draft.cache(slot).size() < sequence.tokens.size());
      CHECK(std::equal(draft.cache(slot).begin(), draft.cache(slot).end(), sequence.tokens.begin()));
    }
    if (setting.exact_length) CHECK(sequence.finish == Finish::max_tokens && sequence.num_committed == wanted);
    const Tokens output(sequence.tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()),
                        sequence.tokens.begin() + wanted);
    law[output] += explorer.weight;
    total += explorer.weight;
  } while (explorer.advance());
  CHECK_NEAR(total, 1.0, 1e-12);
  return law;
}

Law law_of_target(const Setting& setting, const toy::Model& target) {
  const auto row = [&](const Tokens& text) {
    Tokens context = prompt;
    context.insert(context.end(), text.begin(), text.end());
    return law_after(target, setting, context);
  };
  return enumerate::law_of(row, idx(setting.length));
}

double error_of(const Setting& setting, Draft kind, const Replacements& replace = {}) {
  toy::Model target(setting.vocabulary, setting.seed);
  if (!pictures.empty()) target.picture_key = pictures.front().key;
  return enumerate::distance(law_of_loop(setting, kind, replace), law_of_target(setting, target));
}

Setting setting_of(int vocabulary, int num_draft_tokens, int length, bool exact_length) {
  Setting s;
  s.vocabulary = s.draft_vocabulary = vocabulary;
  s.num_draft_tokens = num_draft_tokens;
  s.length = length;
  s.exact_length = exact_length;
  s.params = plain();
  return s;
}

// For negative controls: the drafts were sampled, but another distribution is recorded.
void swap_recorded_probabilities(Sequence& sequence) {
  for (int place = 0; place < sequence.num_drafted(); ++place) {
    std::vector<double>& probs = sequence.draft_row(place).probs;
    if (probs.size() == 2) std::swap(probs[0], probs[1]);
  }
}

}  // namespace

TEST(law_is_the_targets_for_every_draft_length) {
  const Setting settings[] = {
      setting_of(2, 1, 4, false), setting_of(2, 2, 3, false), setting_of(2, 3, 3, false), setting_of(2, 4, 2, false),
      setting_of(3, 1, 3, false), setting_of(3, 2, 2, false), setting_of(3, 3, 2, false), setting_of(4, 2, 2, false),
      setting_of(2, 4, 4, true),  setting_of(3, 3, 3, true),  setting_of(3, 0, 3, true),
  };
  for (Setting s : settings) {
    for (s.seed = 1; s.seed <= 3; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  }
}

TEST(law_holds_under_transforms) {
  Setting s = setting_of(3, 2, 3, true);
  const auto check = [&](void (*change)(SamplingParams&)) {
    s.params = plain();
    change(s.params);
    for (s.seed = 11; s.seed <= 14; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  };
  check([](SamplingParams& p) { p.temperature = 0.6; });
  check([](SamplingParams& p) { p.temperature = 1.7; });
  check([](SamplingParams& p) { p.top_k = 2; });
  check([](SamplingParams& p) { p.top_p = 0.7; });
  check([](SamplingParams& p) { p.min_p = 0.4; });
  check([](SamplingParams& p) { p.repeat_penalty = 1.8; });  // the history differs per place
  check([](SamplingParams& p) { p.frequency_penalty = 0.7, p.penalty_last_n = 2; });
  check([](SamplingParams& p) { p.logit_bias = {{1, 1.5}}, p.temperature = 0.8, p.top_k = 2, p.top_p = 0.9; });
  check([](SamplingParams& p) { p.temperature = 0.0; });
}

// The target reads the picture; drafts of all kinds do not.
TEST(law_holds_after_a_picture) {
  const Tokens plain_prompt = prompt;
  prompt = {0, in_picture, in_picture, in_picture, 1, 0};
  Picture picture;
  picture.place = 1;
  picture.num_rows = 3;
  picture.num_positions = 2;
  picture.key = "a picture";
  pictures = {picture};
  constexpr Draft kinds[] = {
      Draft::model,           Draft::ngram,        Draft::suffix, Draft::combined,          Draft::head,
      Draft::head_and_copies, Draft::layered_head, Draft::window, Draft::window_and_copies, Draft::block};
  for (const Draft kind : kinds) {
    Setting s = setting_of(2, 2, 3, true);
    s.params.repeat_penalty = 1.3;
    for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
      s.verification = verification;
      for (s.seed = 21; s.seed <= 22; ++s.seed) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
    }
  }
  // The control: a law without the picture is another one.
  Setting s = setting_of(2, 2, 3, true);
  CHECK(enumerate::distance(law_of_loop(s, Draft::model), law_of_target(s, toy::Model(2, s.seed))) > 0.01);
  prompt = plain_prompt;
  pictures.clear();
}

TEST(law_holds_under_dry_and_bans) {
  Setting s = setting_of(3, 2, 3, true);
  const auto check = [&](void (*change)(Setting&)) {
    s.params = plain();
    s.rules = {};
    change(s);
    for (const Verification verification : {Verification::token, Verification::block}) {
      s.verification = verification;
      for (s.seed = 15; s.seed <= 17; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
    }
  };
  check([](Setting& it) { it.params.dry = {1.3, 1.5, 1, -1}; });  // repetitions differ by place
  check([](Setting& it) {
    it.params.dry = {1.3, 1.5, 1, 4};
    it.rules.dry_breakers = {{2}, {1, 1}};
  });
  check([](Setting& it) { it.rules.banned = {{0, 1}, {2, 2}}; });
  check([](Setting& it) { it.rules.allowed = {0, 2}; });
  check([](Setting& it) { it.rules.early_bans = {{{1}, static_cast<int>(prompt.size()) + 2}}; });
}

// The random number of XTC is the position's: given these numbers the rows are those of an ordinary transform that
// depends on the place.
TEST(law_holds_under_xtc) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    for (const Draft kind : {Draft::model, Draft::suffix}) {
      Setting s = kind == Draft::model ? setting_of(2, 2, 2, true) : setting_of(2, 3, 3, true);
      s.params.xtc_probability = 0.4;
      s.params.xtc_threshold = 0.2;
      s.verification = verification;
      for (s.seed = 18; s.seed <= 19; ++s.seed) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
    }
  }
}

// The draft is then not a sample of the row that is recorded.
TEST(control_draft_drawn_by_the_number_of_xtc) {
  Replacements shared;
  shared.draft_uses_xtcs_number = true;
  Setting s = setting_of(2, 2, 2, true);
  s.params.xtc_probability = 0.4;
  s.params.xtc_threshold = 0.2;
  s.verification = Verification::block;
  double error = 0.0;
  for (s.seed = 18; s.seed <= 19; ++s.seed) error = std::max(error, error_of(s, Draft::model, shared));
  CHECK(error > 1e-3);
}

TEST(law_holds_when_vocabularies_differ_in_size) {
  Setting s = setting_of(2, 2, 3, true);
  s.draft_vocabulary = 4;  // ids 2 and 3 must never be proposed
  for (s.seed = 21; s.seed <= 24; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  s.vocabulary = 4;
  s.draft_vocabulary = 2;  // only the target can give ids 2 and 3
  s.length = 2;
  for (s.seed = 25; s.seed <= 28; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
}

TEST(law_holds_for_copies_of_the_text) {
  for (const Draft kind : {Draft::ngram, Draft::suffix}) {
    for (const bool exact : {true, false}) {
      Setting s = setting_of(2, 4, 4, exact);
      for (s.seed = 31; s.seed <= 34; ++s.seed) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
      s = setting_of(3, 3, 3, exact);
      for (s.seed = 35; s.seed <= 38; ++s.seed) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
    }
  }
}

// Copies and drafts of the model in one cycle, in any order.
TEST(law_holds_for_copies_and_a_model_together) {
  const auto is_mixed = [](const std::vector<DraftOrigin>& drafts, DraftOrigin first, DraftOrigin second) {
    const DraftOrigin both[] = {first, second};
    return std::search(drafts.begin(), drafts.end(), both, both + 2) != drafts.end();
  };
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    std::set<std::vector<DraftOrigin>> origins;
    Replacements replace;
    replace.origins = &origins;
    for (const MakeDraftLength rule : {MakeDraftLength(nullptr), MakeDraftLength([]() -> std::unique_ptr<DraftLength> {
                                         return std::make_unique<ArbitraryRule>();
                                       })}) {
      replace.draft_length = rule;
      for (Setting s : {setting_of(2, 3, 4, true)}) {
        s.verification = verification;
        for (s.seed = 131; s.seed <= 133; ++s.seed) CHECK_NEAR(error_of(s, Draft::combined, replace), 0.0, 1e-12);
      }
    }
    const auto count = [&](DraftOrigin first, DraftOrigin second) {
      return std::count_if(origins.begin(), origins.end(),
                           [&](const auto& drafts) { return is_mixed(drafts, first, second); });
    };
    CHECK(count(DraftOrigin::model, DraftOrigin::suffix) > 0 && count(DraftOrigin::suffix, DraftOrigin::model) > 0);
  }
}

// The law holds for any rule that uses only permitted information. The test checks that lengths vary.
TEST(law_holds_when_the_draft_length_is_decided_on_the_way) {
  const auto check = [](MakeDraftLength rule, Draft kind, Setting s, std::uint64_t first_seed) {
    std::map<int, int> lengths;
    Replacements replace;
    replace.draft_length = rule;
    replace.lengths = &lengths;
    for (const Verification verification : {Verification::token, Verification::block}) {
      s.verification = verification;
      for (s.seed = first_seed; s.seed < first_seed + 4; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
    }
    CHECK(lengths.size() >= (kind == Draft::model ? 3u : 2u));
  };
  const MakeDraftLength arbitrary = []() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); };
  const MakeDraftLength adaptive = []() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); };
  for (const MakeDraftLength rule : {arbitrary, adaptive}) {
    check(rule, Draft::model, setting_of(2, 0, 4, true), 41);
    check(rule, Draft::model, setting_of(2, 0, 3, false), 51);
    check(rule, Draft::model, setting_of(3, 0, 3, true), 61);
    check(rule, Draft::ngram, setting_of(2, 0, 4, true), 71);
    check(rule, Draft::suffix, setting_of(2, 0, 4, true), 71);
    check(rule, Draft::combined, setting_of(2, 0, 4, true), 71);
  }
}

// Sequences that share a pass choose their draft lengths together: the law of each holds for any random numbers of the
// others.
TEST(law_holds_among_other_sequences) {
  Replacements replace;
  replace.in_company = true;
  for (const Verification verification : {Verification::token, Verification::block}) {
    for (const Draft kind : {Draft::model, Draft::ngram, Draft::suffix, Draft::combined}) {
      for (Setting s : {setting_of(2, 2, 3, true), setting_of(3, 2, 2, false)}) {
        s.verification = verification;
        for (s.seed = 101; s.seed <= 103; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
      }
    }
  }
  std::map<int, int> lengths;
  replace.lengths = &lengths;
  for (const MakeDraftLength rule :
       {MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); }),
        MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); })}) {
    replace.draft_length = rule;
    for (Setting s : {setting_of(2, 0, 4, true), setting_of(3, 0, 2, false)}) {
      for (s.seed = 111; s.seed <= 114; ++s.seed) CHECK_NEAR(error_of(s, Draft::model, replace), 0.0, 1e-12);
    }
  }
  CHECK(lengths.size() >= 3);
}

// A head that reads the target's hidden rows, and its own where there are none yet.
TEST(law_holds_for_drafting_heads) {
  for (const Verification verification : {Verification::token, Verification::block}) {
    for (const Draft kind : {Draft::head, Draft::head_and_copies}) {
      for (const bool in_company : {false, true}) {
        Replacements replace;
        replace.in_company = in_company;
        for (Setting s : {setting_of(2, 1, 4, false), setting_of(2, 3, 4, true), setting_of(3, 2, 2, false),
                          setting_of(3, 3, 3, true)}) {
          if (in_company && !s.exact_length) continue;
          s.verification = verification;
          for (s.seed = 141; s.seed <= 143; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
        }
      }
    }
    Replacements replace;
    std::map<int, int> lengths;
    replace.lengths = &lengths;
    for (const MakeDraftLength rule :
         {MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); }),
          MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); })}) {
      replace.draft_length = rule;
      Setting s = setting_of(2, 0, 4, true);
      s.verification = verification;
      for (s.seed = 145; s.seed <= 147; ++s.seed) CHECK_NEAR(error_of(s, Draft::head, replace), 0.0, 1e-12);
    }
    CHECK(lengths.size() >= 3);
  }
}

// A head of two layers, each of which drafts its own place.
TEST(law_holds_for_heads_of_several_layers) {
  for (const Verification verification : {Verification::token, Verification::block}) {
    Replacements replace;
    std::map<int, int> lengths;
    replace.lengths = &lengths;
    for (const Draft kind : {Draft::layered_head, Draft::layered_head_and_copies}) {
      for (const bool in_company : {false, true}) {
        replace.in_company = in_company;
        for (Setting s : {setting_of(2, 3, 4, true), setting_of(3, 3, 3, true)}) {
          if (in_company && s.vocabulary > 2) continue;
          s.verification = verification;
          for (s.seed = 231; s.seed <= 232; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
        }
      }
    }
    CHECK(lengths.rbegin()->first == 3);
    replace.in_company = false;
    replace.draft_length = []() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); };
    Setting s = setting_of(2, 0, 4, true);
    s.verification = verification;
    for (s.seed = 235; s.seed <= 236; ++s.seed) CHECK_NEAR(error_of(s, Draft::layered_head, replace), 0.0, 1e-12);
  }
}

// The second draft recorded as the first layer's.
TEST(control_the_first_layer_recorded_for_every_place) {
  const Tamper first_layer = [](Sequence& sequence) {
    const toy::HeadLayers layer(2, 231 + 1000, 64, 64, 3);
    Tokens text(sequence.tokens.begin(), sequence.tokens.begin() + sequence.num_committed);
    for (int place = 0; place < sequence.num_drafted(); ++place) {
      const std::vector<float> row = layer.logits_after(layer.expected(text, sequence.num_committed));
      sampling::Transforms(plain()).apply(row.data(), 2, text.data(), static_cast<int>(text.size()),
                                          sequence.draft_row(place));
      text.push_back(sequence.tokens[text.size()]);
    }
  };
  for (const Verification verification : {Verification::token, Verification::block}) {
    Setting s = setting_of(2, 3, 4, true);
    s.seed = 231;
    s.verification = verification;
    CHECK_NEAR(error_of(s, Draft::head, {first_layer}), 0.0, 1e-12);  // whose rows they are
    CHECK(error_of(s, Draft::layered_head, {first_layer}) > 1e-4);
  }
}

// A draft that forgets the beginning of the text.
TEST(law_holds_for_drafts_that_read_a_window) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    for (const Draft kind : {Draft::window, Draft::window_and_copies}) {
      for (const int window : {1, 2, 4, 5}) {
        Replacements replace;
        std::map<int, int> lengths;
        replace.lengths = &lengths;
        for (const MakeDraftLength rule :
             {MakeDraftLength(nullptr),
              MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); }),
              MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); })}) {
          replace.draft_length = rule;
          for (Setting s : {setting_of(2, 3, 4, true), setting_of(3, 2, 2, false)}) {
            if (verification == Verification::invariant && s.vocabulary > 2) continue;
            s.verification = verification;
            s.window = window;
            for (s.seed = 191; s.seed <= 192; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
          }
        }
        CHECK(lengths.size() >= 2);
      }
    }
  }
}

TEST(control_window_that_is_not_the_one_drawn_from) {
  Setting s = setting_of(2, 2, 3, true);
  s.seed = 191;
  Replacements replace;
  replace.tamper = swap_recorded_probabilities;
  CHECK(error_of(s, Draft::window, replace) > 1e-3);
}

TEST(control_wrong_proposal_distribution_of_a_head) {
  Setting s = setting_of(2, 2, 3, true);
  s.seed = 141;
  Replacements replace;
  replace.tamper = swap_recorded_probabilities;
  CHECK(error_of(s, Draft::head, replace) > 1e-3);
}

// The other drafting and verification modes.

TEST(law_holds_for_argmax_drafts) {
  for (Setting s : {setting_of(2, 3, 3, false), setting_of(3, 2, 3, true), setting_of(4, 3, 2, false)}) {
    s.drafting = Drafting::argmax;
    for (s.seed = 41; s.seed <= 43; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  }
}

TEST(law_holds_for_block_verification) {
  const Setting settings[] = {
      setting_of(2, 1, 3, false), setting_of(2, 2, 3, false), setting_of(2, 3, 2, false),
      setting_of(2, 4, 2, false), setting_of(3, 2, 2, false), setting_of(4, 2, 2, false),
      setting_of(2, 4, 4, true),  setting_of(3, 3, 3, true),  setting_of(3, 0, 2, true),
  };
  for (Setting s : settings) {
    s.verification = Verification::block;
    for (const Drafting drafting : {Drafting::sampled, Drafting::argmax}) {
      s.drafting = drafting;
      for (s.seed = 51; s.seed <= 53; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
    }
    for (const Draft kind : {Draft::ngram, Draft::suffix}) {
      if (s.exact_length) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
    }
  }
}

TEST(law_holds_for_block_verification_under_transforms) {
  Setting s = setting_of(3, 2, 3, true);
  s.verification = Verification::block;
  const auto check = [&](void (*change)(SamplingParams&)) {
    s.params = plain();
    change(s.params);
    for (s.seed = 61; s.seed <= 64; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  };
  check([](SamplingParams& p) { p.temperature = 0.6; });
  check([](SamplingParams& p) { p.top_k = 2; });  // zero probabilities on both sides
  check([](SamplingParams& p) { p.top_p = 0.7; });
  check([](SamplingParams& p) { p.repeat_penalty = 1.8; });
  check([](SamplingParams& p) { p.temperature = 0.0; });
}

TEST(law_holds_for_invariant_verification) {
  for (int k = 0; k <= 4; ++k) {
    Setting s = setting_of(2, k, k == 4 ? 4 : 3, true);
    s.verification = Verification::invariant;
    for (s.seed = 71; s.seed <= 73; ++s.seed) {
      CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
      CHECK_NEAR(error_of(s, Draft::ngram), 0.0, 1e-12);
      CHECK_NEAR(error_of(s, Draft::suffix), 0.0, 1e-12);
    }
    s.drafting = Drafting::argmax;
    CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  }
}

// The number of drafts may be chosen during the cycle.
const Rule on_the_next_row = [](const Sequence&, const Distribution& next_row) {
  return next_row.probability(0) > 0.55;
};
const Rule on_the_last_draft = [](const Sequence& s, const Distribution&) {
  return s.num_drafted() > 0 && s.tokens.back() == 1;
};
const Rule on_both = [](const Sequence& s, const Distribution& next_row) {
  return s.num_drafted() > 0 && next_row.probability(s.tokens.back()) > 0.4;
};

TEST(law_holds_when_drafting_stops_early) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    for (const Drafting drafting : {Drafting::sampled, Drafting::argmax}) {
      for (const Rule rule : {on_the_next_row, on_the_last_draft, on_both}) {
        for (Setting s : {setting_of(2, 3, 3, true), setting_of(2, 4, 2, false), setting_of(3, 3, 2, false)}) {
          s.verification = verification;
          s.drafting = drafting;
          if (verification == Verification::invariant && !(s.vocabulary == 2 && s.exact_length)) continue;
          for (s.seed = 81; s.seed <= 84; ++s.seed) CHECK_NEAR(error_of(s, Draft::model, {nullptr, rule}), 0.0, 1e-12);
        }
      }
    }
  }
}

// Constraints: the law is that of the target whose rows are masked before the transforms.

// Any of the non-empty sets of tokens, by the output so far.
toy::Allowed arbitrary_constraint(int vocabulary, std::uint64_t seed) {
  return [=](const Tokens& output) {
    std::uint64_t hash = toy::mix(seed + 500);
    for (const Token token : output) hash = toy::mix(hash ^ static_cast<std::uint64_t>(token));
    return static_cast<std::uint32_t>(1 + hash % ((1u << vocabulary) - 1));
  };
}

TEST(law_is_the_constrained_targets) {
  std::set<DraftOrigin> seen;
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    for (const Draft kind : {Draft::model, Draft::ngram, Draft::suffix, Draft::combined}) {
      std::set<std::vector<DraftOrigin>> origins;
      Replacements replace;
      replace.origins = &origins;
      for (Setting s : {setting_of(2, 3, 4, true), setting_of(2, 4, 3, false), setting_of(3, 2, 3, true),
                        setting_of(3, 3, 2, false)}) {
        s.verification = verification;
        if (verification == Verification::invariant && !(s.vocabulary == 2 && s.exact_length)) continue;
        for (s.seed = 151; s.seed <= 153; ++s.seed) {
          s.allowed = arbitrary_constraint(s.vocabulary, s.seed);
          for (const Drafting drafting : {Drafting::sampled, Drafting::argmax}) {
            s.drafting = drafting;
            if (drafting == Drafting::argmax && kind != Draft::model) continue;
            CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
          }
        }
      }
      for (const auto& drafts : origins) seen.insert(drafts.begin(), drafts.end());
    }
  }
  CHECK(seen ==
        std::set<DraftOrigin>({DraftOrigin::model, DraftOrigin::ngram, DraftOrigin::suffix, DraftOrigin::constraint}));
}

TEST(law_is_the_constrained_targets_under_transforms) {
  for (const Verification verification : {Verification::token, Verification::block}) {
    const auto check = [&](void (*change)(SamplingParams&)) {
      Setting s = setting_of(3, 2, 3, true);
      s.verification = verification;
      change(s.params);
      for (s.seed = 161; s.seed <= 163; ++s.seed) {
        s.allowed = arbitrary_constraint(s.vocabulary, s.seed);
        for (const Draft kind : {Draft::model, Draft::combined}) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
      }
    };
    check([](SamplingParams& p) { p.temperature = 0.6; });
    check([](SamplingParams& p) { p.top_k = 2; });
    check([](SamplingParams& p) { p.top_p = 0.7; });
    check([](SamplingParams& p) { p.min_p = 0.4; });
    check([](SamplingParams& p) { p.repeat_penalty = 1.8; });
    check([](SamplingParams& p) { p.temperature = 0.0; });
  }
}

TEST(law_is_the_constrained_targets_when_the_draft_length_is_decided_on_the_way) {
  Replacements replace;
  for (const MakeDraftLength rule :
       {MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); }),
        MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); })}) {
    replace.draft_length = rule;
    for (const Verification verification : {Verification::token, Verification::block}) {
      for (const Draft kind : {Draft::model, Draft::suffix, Draft::combined}) {
        Setting s = setting_of(2, 0, 4, true);
        s.verification = verification;
        for (s.seed = 171; s.seed <= 172; ++s.seed) {
          s.allowed = arbitrary_constraint(s.vocabulary, s.seed);
          for (const bool in_company : {false, true}) {
            replace.in_company = in_company;
            CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
          }
        }
      }
    }
  }
}

// Where the draft model knows none of the allowed tokens, it stops drafting.
TEST(law_is_the_constrained_targets_when_vocabularies_differ_in_size) {
  for (const auto& [vocabulary, draft_vocabulary] : {std::pair(3, 2), std::pair(2, 4)}) {
    Setting s = setting_of(vocabulary, 3, 2, true);
    s.draft_vocabulary = draft_vocabulary;
    for (s.seed = 181; s.seed <= 186; ++s.seed) {
      s.allowed = arbitrary_constraint(s.vocabulary, s.seed);
      CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
    }
  }
}

// Negative controls: the enumeration must detect errors.

TEST(control_constraint_that_is_not_rolled_back) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    Setting s = setting_of(2, 3, 4, true);
    s.verification = verification;
    double worst = 0.0;
    for (s.seed = 151; s.seed <= 162; ++s.seed) {
      s.allowed = arbitrary_constraint(s.vocabulary, s.seed);
      Replacements replace;
      replace.forgets_to_roll_back = true;
      worst = std::max(worst, error_of(s, Draft::model, replace));
    }
    CHECK(worst > 0.01);
  }
}

TEST(control_mask_after_truncation) {
  double worst = 0.0;
  Setting s = setting_of(3, 2, 1, true);
  s.params.top_k = 2;
  for (s.seed = 161; s.seed <= 166; ++s.seed) {
    s.allowed = [](const Tokens&) { return 0b011u; };
    const Law law = law_of_loop(s, Draft::model);
    s.allowed = nullptr;
    Law masked_late;
    double kept = 0.0;
    for (const auto& [text, probability] : law_of_target(s, toy::Model(3, s.seed))) {
      if (text[0] != 2) masked_late[text] = probability, kept += probability;
    }
    for (auto& [text, probability] : masked_late) probability /= kept;
    worst = std::max(worst, enumerate::distance(law, masked_late));
  }
  CHECK(worst > 0.01);
}

const Tamper drop_if_one = [](Sequence& s) {
  if (s.num_drafted() > 0 && s.tokens.back() == 1) s.tokens.pop_back();
};

TEST(control_block_verification_of_a_draft_dropped_after_sampling) {
  Setting s = setting_of(2, 3, 2, false);
  s.verification = Verification::block;
  s.seed = 91;
  CHECK(error_of(s, Draft::model, {drop_if_one}) > 0.01);
  // A token that is determined by the past, or by the noise, may be dropped.
  s.drafting = Drafting::argmax;
  CHECK_NEAR(error_of(s, Draft::model, {drop_if_one}), 0.0, 1e-12);
  s.drafting = Drafting::sampled;
  s.verification = Verification::invariant;
  s.exact_length = true;
  CHECK_NEAR(error_of(s, Draft::model, {drop_if_one}), 0.0, 1e-12);
}

TEST(control_noise_that_ignores_the_position) {
  Setting s = setting_of(2, 1, 2, true);
  s.verification = Verification::invariant;
  CHECK(error_of(s, Draft::model, {nullptr, nullptr, nullptr, nullptr, true}) > 0.05);
}

TEST(control_wrong_proposal_distribution) {
  const Tamper argmax_recorded_as_softmax = [](Sequence& s) {
    for (int i = 0; i < s.num_drafted(); ++i) {
      Distribution& row = s.draft_row(i);
      const auto best = std::max_element(row.probs.begin(), row.probs.end()) - row.probs.begin();
      s.tokens[static_cast<std::size_t>(s.num_committed + i)] = row.tokens[static_cast<std::size_t>(best)];
    }
  };
  CHECK(error_of(setting_of(2, 1, 1, false), Draft::model, {argmax_recorded_as_softmax}) > 0.01);
  const Tamper uniform_recorded = [](Sequence& s) {
    for (int i = 0; i < s.num_drafted(); ++i) s.draft_row(i).probs.assign(s.draft_row(i).tokens.size(), 0.5);
  };
  CHECK(error_of(setting_of(2, 1, 1, false), Draft::model, {uniform_recorded}) > 0.01);
}

// Not a control: submitting a sampled token as a one-hot proposal lowers its acceptance, but the law is exact.
TEST(one_hot_proposals_of_sampled_tokens_are_exact) {
  const Tamper recorded_as_one_hot = [](Sequence& s) {
    for (int i = 0; i < s.num_drafted(); ++i)
      s.draft_row(i).set_one_hot(s.tokens[static_cast<std::size_t>(s.num_committed + i)]);
  };
  CHECK_NEAR(error_of(setting_of(3, 2, 2, false), Draft::model, {recorded_as_one_hot}), 0.0, 1e-12);
}

// A whole block in one pass, its rows with and without a bias by the token before. Any number of places, also fewer
// than the block has.
TEST(law_holds_for_block_drafters) {
  std::set<DraftOrigin> seen;
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    for (const Draft kind : {Draft::block, Draft::biased_block, Draft::block_and_copies}) {
      std::set<std::vector<DraftOrigin>> origins;
      std::map<int, int> lengths;
      Replacements replace;
      replace.origins = &origins;
      replace.lengths = &lengths;
      for (const bool in_company : {false, true}) {
        replace.in_company = in_company;
        for (Setting s : {setting_of(2, 1, 3, true), setting_of(2, 2, 4, true), setting_of(2, 4, 4, true),
                          setting_of(3, 3, 3, true), setting_of(2, 3, 2, false)}) {
          if (verification == Verification::invariant && (s.vocabulary > 2 || !s.exact_length)) continue;
          if (in_company && s.vocabulary > 2) continue;
          s.verification = verification;
          for (s.seed = 201; s.seed <= 202; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
        }
      }
      CHECK(kind == Draft::block_and_copies || lengths.rbegin()->first == 3);
      replace.in_company = false;
      for (const MakeDraftLength rule :
           {MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); }),
            MakeDraftLength([]() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); })}) {
        replace.draft_length = rule;
        Setting s = setting_of(2, 0, 4, true);
        s.verification = verification;
        for (s.seed = 205; s.seed <= 206; ++s.seed) CHECK_NEAR(error_of(s, kind, replace), 0.0, 1e-12);
      }
      CHECK(lengths.size() >= 3);
      for (const auto& drafts : origins) seen.insert(drafts.begin(), drafts.end());
    }
  }
  CHECK(seen == std::set<DraftOrigin>({DraftOrigin::model, DraftOrigin::suffix}));
}

TEST(law_holds_for_block_drafters_under_transforms_and_constraints) {
  for (const Verification verification : {Verification::token, Verification::block}) {
    for (const Draft kind : {Draft::block, Draft::biased_block}) {
      Setting s = setting_of(3, 3, 3, true);
      s.verification = verification;
      s.params.repeat_penalty = 1.8;
      s.params.top_k = 2;
      for (s.seed = 211; s.seed <= 212; ++s.seed) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
      s.params = plain();
      for (s.seed = 213; s.seed <= 214; ++s.seed) {
        s.allowed = arbitrary_constraint(s.vocabulary, s.seed);
        for (const Drafting drafting : {Drafting::sampled, Drafting::argmax}) {
          s.drafting = drafting;
          CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
        }
      }
      s = setting_of(3, 3, 4, true);
      s.verification = verification;
      s.params.temperature = 0.0;
      for (s.seed = 215; s.seed <= 216; ++s.seed) CHECK_NEAR(error_of(s, kind), 0.0, 1e-12);
    }
  }
}

// Drafts as long as the drafter itself is confident.
class ConfidentRule final : public toy::DraftRule {
 public:
  bool worth_a_row(const Sequence& s, int) override { return s.num_drafted() < 3; }
  bool worth_a_draft(const Sequence&, double row_confidence) override { return row_confidence > 0.5; }
};

TEST(law_holds_where_confidences_end_blocks) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    std::map<int, int> lengths;
    Replacements replace;
    replace.lengths = &lengths;
    replace.draft_length = []() -> std::unique_ptr<DraftLength> { return std::make_unique<ConfidentRule>(); };
    Setting s = setting_of(2, 0, 4, true);
    s.verification = verification;
    for (s.seed = 221; s.seed <= 224; ++s.seed) CHECK_NEAR(error_of(s, Draft::biased_block, replace), 0.0, 1e-12);
    CHECK(lengths.size() == 4);
  }
}

// The confidence that follows a draft depends on it.
TEST(control_draft_withdrawn_by_the_confidence_behind_it) {
  const Tamper withdrawn = [](Sequence& s) {
    if (s.num_drafted() == 0) return;
    const toy::BlockLayers layers(2, 201 + 1000, 3, true);
    if (layers.confidence_after(s.tokens, s.num_committed, 3) < 0.5) s.tokens.pop_back();
  };
  for (const Verification verification : {Verification::token, Verification::block}) {
    Setting s = setting_of(2, 3, 4, true);
    s.seed = 201;
    s.verification = verification;
    CHECK(error_of(s, Draft::biased_block, {withdrawn}) > 1e-3);
  }
}

// The biases of a block chained through the likeliest tokens instead of those that were drawn.
TEST(control_greedy_chain_of_biases) {
  const Tamper chained = [](Sequence& sequence) {
    const toy::BlockLayers layers(2, 201 + 1000, 3, true);
    Tokens text(sequence.tokens.begin(), sequence.tokens.begin() + sequence.num_committed);
    for (int place = 0; place < sequence.num_drafted(); ++place) {
      const std::vector<float> row = layers.logits_after(text, sequence.num_committed, 3);
      Distribution& recorded = sequence.draft_row(place);
      sampling::Transforms(plain()).apply(row.data(), 2, text.data(), static_cast<int>(text.size()), recorded);
      text.push_back(row[0] < row[1] ? 1 : 0);
    }
  };
  for (const Verification verification : {Verification::token, Verification::block}) {
    Setting s = setting_of(2, 3, 4, true);
    s.seed = 201;
    s.verification = verification;
    CHECK(error_of(s, Draft::biased_block, {chained}) > 1e-4);
  }
}

TEST(control_wrong_proposal_distribution_of_a_block) {
  for (const Draft kind : {Draft::block, Draft::biased_block}) {
    Setting s = setting_of(2, 3, 3, true);
    s.seed = 201;
    const Tamper swapped = [](Sequence& sequence) {
      for (int place = 0; place < sequence.num_drafted(); ++place) {
        std::vector<double>& probs = sequence.draft_row(place).probs;
        if (probs.size() == 2) std::swap(probs[0], probs[1]);
      }
    };
    CHECK(error_of(s, kind, {swapped}) > 1e-3);
    CHECK(error_of(s, kind, {drop_if_one}) > 1e-3);  // withdrawn because of what it is
  }
}

// Proposes the tokens of an earlier output, place for place.
class Recaller final : public Proposer {
 public:
  void propose(const std::vector<ProposalRequest>& requests, Stats&) override {
    for (const ProposalRequest& request : requests) {
      Sequence& s = *request.sequence;
      const std::size_t end =
          std::min(earlier_.size(), s.tokens.size() - prompt.size() + static_cast<std::size_t>(request.num_tokens));
      copies_.clear();
      for (std::size_t i = s.tokens.size() - prompt.size(); i < end; ++i) copies_.push_back({earlier_[i], 1.0});
      add_copies(request, copies_);
    }
  }
  int room(int) const override { return max_draft_tokens; }
  void prefill(const Sequence&, int) override {}
  void truncate(int, int) override {}
  void copy(int, int) override {}
  void remember(const Token* output, int count) override { earlier_.assign(output, output + count); }

 private:
  Tokens earlier_;
  std::vector<Copy> copies_;
};

// The law of a request that repeats the seed of an earlier one: it may know that one's output, which the same random
// numbers have decided. drafts: of the second request.
template <class SomeProposer>
double error_of_repeated_seed(const Setting& setting, int* drafts) {
  Law law;
  Explorer explorer;
  *drafts = 0;
  do {
    explorer.restart();
    toy::Model target(setting.vocabulary, setting.seed);
    const toy::Model draft(setting.draft_vocabulary, setting.seed + 1000);
    SomeProposer proposer;
    Decoder decoder(target, &proposer);
    const auto seed = std::make_shared<Seed>();
    Tokens output;
    for (const bool second : {false, true}) {
      auto uniforms = std::make_unique<EnumeratedUniforms>(explorer, target, draft, setting, seed);
      EnumeratedUniforms& source = *uniforms;
      Sequence s(0, setting.params, std::move(uniforms));
      source.sequence = &s;
      source.sequence_start = static_cast<std::int64_t>(prompt.size());
      s.verification = setting.verification;
      s.tokens = prompt;
      s.num_committed = static_cast<int>(prompt.size());
      s.num_draft_tokens = setting.num_draft_tokens;
      s.remaining = setting.length;
      decoder.keep_prefix(0, 0);
      decoder.prefill(s);
      while (s.finish == Finish::none) decoder.cycle({&s});
      decoder.remember(s, static_cast<int>(prompt.size()));
      const Tokens repeated(s.tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), s.tokens.end());
      if (second && setting.verification == Verification::invariant) CHECK(repeated == output);
      output = repeated;
      if (second) *drafts += static_cast<int>(s.stats.drafted);
    }
    law[output] += explorer.weight;
  } while (explorer.advance());
  return enumerate::distance(law, law_of_target(setting, toy::Model(setting.vocabulary, setting.seed)));
}

TEST(law_holds_when_a_seed_is_repeated) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    Setting s = setting_of(2, 2, 3, true);
    s.verification = verification;
    for (s.seed = 121; s.seed <= 124; ++s.seed) {
      int drafts = 0;
      CHECK_NEAR(error_of_repeated_seed<SuffixProposer>(s, &drafts), 0.0, 1e-12);
      CHECK(drafts > 0);
    }
  }
}

TEST(control_drafts_that_know_what_a_seed_decided) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    Setting s = setting_of(2, 2, 3, true);
    s.verification = verification;
    double worst = 0.0;
    for (s.seed = 121; s.seed <= 124; ++s.seed) {
      int drafts = 0;
      worst = std::max(worst, error_of_repeated_seed<Recaller>(s, &drafts));
      CHECK(drafts > 0);
    }
    CHECK(verification == Verification::invariant ? worst < 1e-12 : worst > 0.01);
  }
}

TEST(control_unlikely_draft_dropped_after_sampling) {
  // Target (.5, .5), draft (.9, .1), token 1 withdrawn whenever it is sampled: P(token 0) = .55.
  Setting s = setting_of(2, 1, 1, false);
  toy::Model target(2, 1), draft(2, 1);
  target.table = [](const Tokens&) { return std::vector<float>{0.0f, 0.0f}; };
  draft.table = [](const Tokens&) { return std::vector<float>{std::log(9.0f), 0.0f}; };
  const Tamper drop_unlikely = [](Sequence& seq) {
    if (seq.tokens.back() == 1) seq.tokens.pop_back();
  };
  const Law fair = law_of_loop(s, Draft::model, {nullptr, nullptr, &target, &draft});
  CHECK_NEAR(fair.at({0}), 0.5, 1e-12);
  const Law biased = law_of_loop(s, Draft::model, {drop_unlikely, nullptr, &target, &draft});
  CHECK_NEAR(biased.at({0}), 0.55, 1e-6);
  // The same if a copy takes its place.
  const Tamper replace_unlikely = [](Sequence& seq) {
    if (seq.tokens.back() != 1) return;
    seq.tokens.pop_back();
    seq.draft_row(0).set_one_hot(0);
    seq.add_draft(0, DraftOrigin::suffix);
  };
  const Law also_biased = law_of_loop(s, Draft::model, {replace_unlikely, nullptr, &target, &draft});
  CHECK_NEAR(also_biased.at({0}), 0.55, 1e-6);
}

TEST_MAIN()
