// The law of the output, by exact enumeration through the real loop: every uniform it asks for is replaced by one value
// from each interval on which the outcome is constant, weighted by the interval's length. The intervals are worked out
// here from the tables, independently of the loop.

#include <algorithm>
#include <map>
#include <memory>

#include "check.h"
#include "speculative/adaptive_draft_length.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/ngram_proposer.h"
#include "toy_model.h"

namespace {

using namespace specdec;
using sampling::Distribution;
using sampling::Purpose;
using sampling::SamplingParams;
using Text = std::vector<Token>;
using Law = std::map<Text, double>;

Distribution distribution_after(const toy::Model& model, const SamplingParams& params, const Text& context, int vocabulary) {
  Distribution out;
  const std::vector<float> logits = model.logits_after(context);
  sampling::Transforms(params).apply(logits.data(), std::min(vocabulary, model.vocabulary_size()), context.data(),
                                     static_cast<int>(context.size()), out);
  return out;
}

// Walks the tree of all choices depth first: replays the path so far, then goes on with first choices.
class Explorer {
 public:
  bool advance() {  // to the next leaf; false after the last
    while (!path_.empty() && path_.back().index + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().index;
    return true;
  }
  void restart() {
    depth_ = 0;
    weight = 1.0;
  }
  // breakpoints: where the outcome may change, in (0, 1), any order.
  double choose(std::vector<double> breakpoints) {
    breakpoints.push_back(0.0);
    breakpoints.push_back(1.0);
    std::sort(breakpoints.begin(), breakpoints.end());
    std::vector<std::pair<double, double>> intervals;
    for (std::size_t i = 0; i + 1 < breakpoints.size(); ++i) {
      if (breakpoints[i] >= 0.0 && breakpoints[i + 1] <= 1.0 && breakpoints[i + 1] > breakpoints[i]) {
        intervals.emplace_back(breakpoints[i], breakpoints[i + 1]);
      }
    }
    if (depth_ == path_.size()) path_.push_back({0, intervals.size()});
    const auto [low, high] = intervals.at(path_[depth_++].index);
    weight *= high - low;
    return 0.5 * (low + high);
  }
  double weight = 1.0;

 private:
  struct Choice {
    std::size_t index, count;
  };
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
};

struct Setting {
  int vocabulary = 2;
  int draft_vocabulary = 2;
  int num_draft_tokens = 2;
  int length = 2;            // L: tokens whose law is compared
  bool exact_length = true;  // stop at max_tokens = L (K is clipped near the end), or go on past it
  SamplingParams params;
  std::uint64_t seed = 1;
};

SamplingParams plain() {
  SamplingParams params;
  params.temperature = 1.0;
  params.top_k = 0;
  params.top_p = 1.0;
  params.min_p = 0.0;
  return params;
}

// Hands out the explorer's choices, told apart by what the sequence looks like at the time of the call.
class EnumeratedUniforms final : public sampling::UniformSource {
 public:
  EnumeratedUniforms(Explorer& explorer, const toy::Model& target, const toy::Model& draft, const Setting& setting)
      : explorer_(explorer), target_(target), draft_(draft), setting_(setting) {}
  const Sequence* sequence = nullptr;

  double uniform(std::int64_t position, int place, Purpose purpose) const override {
    const Text& tokens = sequence->tokens;
    const auto context = [&](int at) { return Text(tokens.begin(), tokens.begin() + position + at); };
    CHECK(position == sequence->num_committed);
    if (purpose == Purpose::draft) {
      CHECK(place == sequence->num_drafted());
      rejected_at_ = -1;
      return explorer_.choose(cdf(dense(draft_row(context(place)))));
    }
    if (purpose == Purpose::accept) {
      const Token token = tokens[static_cast<std::size_t>(position + place)];
      const double target_prob = target_row(context(place)).probability(token);
      const double draft_prob = recorded(place).probability(token);
      const double u = explorer_.choose({std::min(1.0, target_prob / draft_prob)});
      rejected_at_ = u * draft_prob < target_prob ? -1 : place;
      return u;
    }
    if (rejected_at_ < 0) return explorer_.choose(cdf(dense(target_row(context(sequence->num_drafted())))));
    std::vector<double> rest = dense(target_row(context(rejected_at_)));
    const std::vector<double> proposed = dense(recorded(rejected_at_));
    double total = 0.0;
    for (std::size_t i = 0; i < rest.size(); ++i) total += rest[i] = std::max(0.0, rest[i] - proposed[i]);
    for (double& p : rest) p /= total;
    rejected_at_ = -1;
    return explorer_.choose(cdf(rest));
  }

 private:
  // What the proposer says its draft was sampled from. The thresholds follow from it; whether it is true, the law tells.
  const Distribution& recorded(int place) const { return sequence->draft_probs[static_cast<std::size_t>(place)]; }
  Distribution draft_row(const Text& context) const { return distribution_after(draft_, setting_.params, context, setting_.vocabulary); }
  Distribution target_row(const Text& context) const { return distribution_after(target_, setting_.params, context, setting_.vocabulary); }
  std::vector<double> dense(const Distribution& d) const {
    std::vector<double> row(static_cast<std::size_t>(setting_.vocabulary), 0.0);
    for (std::size_t i = 0; i < d.tokens.size(); ++i) row[static_cast<std::size_t>(d.tokens[i])] = d.probs[i];
    return row;
  }
  static std::vector<double> cdf(const std::vector<double>& probs) {
    std::vector<double> sums;
    double sum = 0.0;
    for (const double p : probs) sums.push_back(sum += p);
    sums.pop_back();
    return sums;
  }

  Explorer& explorer_;
  const toy::Model& target_;
  const toy::Model& draft_;
  const Setting& setting_;
  mutable int rejected_at_ = -1;
};

const Text prompt = {0, 1, 0};

enum class Draft { model, ngram };
// What a broken proposer does after the real one; the law must then be wrong.
using Tamper = void (*)(Sequence&);

class TamperedProposer final : public Proposer {
 public:
  TamperedProposer(Proposer& real, Tamper tamper) : real_(real), tamper_(tamper) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override {
    real_.propose(requests, stats);
    for (const ProposalRequest& request : requests) tamper_(*request.sequence);
  }
  int room(int n) const override { return real_.room(n); }
  void prefill(const Sequence& s) override { real_.prefill(s); }
  void truncate(int slot, int length) override { real_.truncate(slot, length); }

 private:
  Proposer& real_;
  Tamper tamper_;
};

// Stops by what it may see: the drafts so far and the row of the next place, before anything is sampled from it.
class ArbitraryRule final : public DraftLength {
 public:
  void begin_cycle(int) override {}
  bool worth_a_row(const Sequence& s) override { return s.num_drafted() < 4 && hash(s) % 4 != 0; }
  bool worth_a_draft(const Sequence& s, double row_confidence) override {
    return toy::mix(hash(s) + static_cast<std::uint64_t>(1e6 * row_confidence)) % 3 != 0;
  }
  void drafted(Sequence&, double, double) override {}
  void withheld(Sequence&, double, Token) override {}
  void record_draft_pass(double) override {}
  void observe(const Sequence&, int, Token) override {}
  void end_cycle(int, int, double, double) override {}

 private:
  static std::uint64_t hash(const Sequence& s) {
    std::uint64_t h = 77;
    for (const Token token : s.tokens) h = toy::mix(h ^ static_cast<std::uint64_t>(token));
    return h;
  }
};

// The real rule, told of passes that take made-up time: the same path of choices meets the same decisions each time.
class TimelessRule final : public DraftLength {
 public:
  TimelessRule() {
    begin_cycle(1);
    end_cycle(1, 1, 0.0, 0.0);
  }
  void begin_cycle(int num_sequences) override { rule_.begin_cycle(num_sequences); }
  bool worth_a_row(const Sequence& s) override { return rule_.worth_a_row(s); }
  bool worth_a_draft(const Sequence& s, double row_confidence) override { return rule_.worth_a_draft(s, row_confidence); }
  void drafted(Sequence& s, double row_confidence, double confidence) override { rule_.drafted(s, row_confidence, confidence); }
  void withheld(Sequence& s, double row_confidence, Token token) override { rule_.withheld(s, row_confidence, token); }
  void record_draft_pass(double) override { rule_.record_draft_pass(0.1); }
  void observe(const Sequence& s, int num_accepted, Token token) override { rule_.observe(s, num_accepted, token); }
  void end_cycle(int num_scored, int num_made, double, double) override {
    rule_.end_cycle(num_scored, num_made, 0.75 + 0.2 * num_scored, 0.0);
  }

 private:
  AdaptiveDraftLength rule_;
};

using Rule = std::unique_ptr<DraftLength> (*)();

// Distribution of the first L tokens, over every choice the loop can make. lengths: counts the drafts of each cycle.
Law law_of_loop(const Setting& setting, Draft kind, Tamper tamper = nullptr, toy::Model* target_given = nullptr, toy::Model* draft_given = nullptr,
                Rule rule = nullptr, std::map<int, int>* lengths = nullptr) {
  Law law;
  Explorer explorer;
  double total = 0.0;
  do {
    explorer.restart();
    toy::Model target(setting.vocabulary, setting.seed), draft(setting.draft_vocabulary, setting.seed + 1000);
    if (target_given) target.table = target_given->table;
    if (draft_given) draft.table = draft_given->table;
    DraftModelProposer model_proposer(draft, setting.vocabulary);
    NgramProposer ngram_proposer;
    Proposer* proposer = kind == Draft::model ? static_cast<Proposer*>(&model_proposer) : &ngram_proposer;
    TamperedProposer tampered(*proposer, tamper);
    const std::unique_ptr<DraftLength> draft_length = rule ? rule() : nullptr;
    Decoder decoder(target, tamper ? &tampered : proposer, draft_length.get());

    auto uniforms = std::make_unique<EnumeratedUniforms>(explorer, target, draft, setting);
    EnumeratedUniforms& source = *uniforms;
    Sequence sequence(0, setting.params, std::move(uniforms));
    source.sequence = &sequence;
    sequence.tokens = prompt;
    sequence.num_committed = static_cast<int>(prompt.size());
    sequence.num_draft_tokens = rule ? auto_draft_tokens : setting.num_draft_tokens;
    sequence.remaining = setting.exact_length ? setting.length : 60;
    decoder.prefill(sequence);
    const int wanted = static_cast<int>(prompt.size()) + setting.length;
    while (sequence.num_committed < wanted) {
      const std::int64_t drafted_before = decoder.stats().drafted;
      decoder.cycle({&sequence});
      if (lengths) ++(*lengths)[static_cast<int>(decoder.stats().drafted - drafted_before)];
      CHECK(target.cache(0) == Text(sequence.tokens.begin(), sequence.tokens.end() - 1));
      CHECK(draft.cache(0).size() < sequence.tokens.size());
      CHECK(std::equal(draft.cache(0).begin(), draft.cache(0).end(), sequence.tokens.begin()));
    }
    if (setting.exact_length) CHECK(sequence.finish == Finish::max_tokens && sequence.num_committed == wanted);
    const Text output(sequence.tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), sequence.tokens.begin() + wanted);
    law[output] += explorer.weight;
    total += explorer.weight;
  } while (explorer.advance());
  CHECK_NEAR(total, 1.0, 1e-12);
  return law;
}

Law law_of_target(const Setting& setting, const toy::Model& target) {
  Law law{{Text(), 1.0}};
  for (int i = 0; i < setting.length; ++i) {
    Law longer;
    for (const auto& [text, probability] : law) {
      Text context = prompt;
      context.insert(context.end(), text.begin(), text.end());
      const Distribution next = distribution_after(target, setting.params, context, setting.vocabulary);
      for (std::size_t t = 0; t < next.tokens.size(); ++t) {
        Text extended = text;
        extended.push_back(next.tokens[t]);
        longer[extended] = probability * next.probs[t];
      }
    }
    law = longer;
  }
  return law;
}

double largest_error(const Law& a, const Law& b) {
  double error = 0.0;
  const auto at = [](const Law& law, const Text& text) {
    const auto found = law.find(text);
    return found == law.end() ? 0.0 : found->second;
  };
  for (const auto& [text, p] : a) error = std::max(error, std::fabs(p - at(b, text)));
  for (const auto& [text, p] : b) error = std::max(error, std::fabs(p - at(a, text)));
  return error;
}

double error_of(const Setting& setting, Draft kind, Tamper tamper = nullptr) {
  return largest_error(law_of_loop(setting, kind, tamper), law_of_target(setting, toy::Model(setting.vocabulary, setting.seed)));
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
  check([](SamplingParams& p) { p.repeat_penalty = 1.8; });                                // the history differs per place
  check([](SamplingParams& p) { p.frequency_penalty = 0.7, p.penalty_last_n = 2; });
  check([](SamplingParams& p) { p.logit_bias = {{1, 1.5}}, p.temperature = 0.8, p.top_k = 2, p.top_p = 0.9; });
  check([](SamplingParams& p) { p.temperature = 0.0; });
}

TEST(law_holds_when_vocabularies_differ_in_size) {
  Setting s = setting_of(2, 2, 3, true);
  s.draft_vocabulary = 4;  // ids 2 and 3 must never be proposed
  for (s.seed = 21; s.seed <= 24; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
  s.vocabulary = 4;
  s.draft_vocabulary = 2;  // ids 2 and 3 come from the target alone
  s.length = 2;
  for (s.seed = 25; s.seed <= 28; ++s.seed) CHECK_NEAR(error_of(s, Draft::model), 0.0, 1e-12);
}

TEST(law_holds_for_ngram_proposals) {
  for (const bool exact : {true, false}) {
    Setting s = setting_of(2, 4, 4, exact);
    for (s.seed = 31; s.seed <= 34; ++s.seed) CHECK_NEAR(error_of(s, Draft::ngram), 0.0, 1e-12);
    s = setting_of(3, 3, 3, exact);
    for (s.seed = 35; s.seed <= 38; ++s.seed) CHECK_NEAR(error_of(s, Draft::ngram), 0.0, 1e-12);
  }
}

// Any rule that looks at nothing but what it may: the law stays. The lengths really vary.
TEST(law_holds_when_the_draft_length_is_decided_on_the_way) {
  const auto check = [](Rule rule, Draft kind, Setting s, std::uint64_t first_seed) {
    std::map<int, int> lengths;
    for (s.seed = first_seed; s.seed < first_seed + 4; ++s.seed) {
      const Law law = law_of_loop(s, kind, nullptr, nullptr, nullptr, rule, &lengths);
      CHECK_NEAR(largest_error(law, law_of_target(s, toy::Model(s.vocabulary, s.seed))), 0.0, 1e-12);
    }
    CHECK(lengths.size() >= (kind == Draft::model ? 3u : 2u));
  };
  const Rule arbitrary = []() -> std::unique_ptr<DraftLength> { return std::make_unique<ArbitraryRule>(); };
  const Rule adaptive = []() -> std::unique_ptr<DraftLength> { return std::make_unique<TimelessRule>(); };
  for (const Rule rule : {arbitrary, adaptive}) {
    check(rule, Draft::model, setting_of(2, 0, 4, true), 41);
    check(rule, Draft::model, setting_of(2, 0, 3, false), 51);
    check(rule, Draft::model, setting_of(3, 0, 3, true), 61);
    check(rule, Draft::ngram, setting_of(2, 0, 4, true), 71);
  }
}

// Negative controls: the enumeration must notice what is wrong.

TEST(control_wrong_proposal_distribution) {
  const Tamper argmax_recorded_as_softmax = [](Sequence& s) {
    for (int i = 0; i < s.num_drafted(); ++i) {
      Distribution& row = s.draft_row(i);
      const auto best = std::max_element(row.probs.begin(), row.probs.end()) - row.probs.begin();
      s.tokens[static_cast<std::size_t>(s.num_committed + i)] = row.tokens[static_cast<std::size_t>(best)];
    }
  };
  CHECK(error_of(setting_of(2, 1, 1, false), Draft::model, argmax_recorded_as_softmax) > 0.01);
  const Tamper uniform_recorded = [](Sequence& s) {
    for (int i = 0; i < s.num_drafted(); ++i) s.draft_row(i).probs.assign(s.draft_row(i).tokens.size(), 0.5);
  };
  CHECK(error_of(setting_of(2, 1, 1, false), Draft::model, uniform_recorded) > 0.01);
}

// Not a control: a sampled token submitted as a one-hot proposal is accepted less often, but the law stays exact.
TEST(one_hot_proposals_of_sampled_tokens_are_exact) {
  const Tamper recorded_as_one_hot = [](Sequence& s) {
    for (int i = 0; i < s.num_drafted(); ++i) s.draft_row(i).set_one_hot(s.tokens[static_cast<std::size_t>(s.num_committed + i)]);
  };
  CHECK_NEAR(error_of(setting_of(3, 2, 2, false), Draft::model, recorded_as_one_hot), 0.0, 1e-12);
}

TEST(control_unlikely_draft_dropped_after_sampling) {
  // design: target (.5, .5), draft (.9, .1), token 1 withdrawn whenever it is sampled -> P(token 0) = .55
  Setting s = setting_of(2, 1, 1, false);
  toy::Model target(2, 1), draft(2, 1);
  target.table = [](const Text&) { return std::vector<float>{0.0f, 0.0f}; };
  draft.table = [](const Text&) { return std::vector<float>{std::log(9.0f), 0.0f}; };
  const Tamper drop_unlikely = [](Sequence& seq) {
    if (seq.tokens.back() == 1) seq.tokens.pop_back();
  };
  const Law fair = law_of_loop(s, Draft::model, nullptr, &target, &draft);
  CHECK_NEAR(fair.at({0}), 0.5, 1e-12);
  const Law biased = law_of_loop(s, Draft::model, drop_unlikely, &target, &draft);
  CHECK_NEAR(biased.at({0}), 0.55, 1e-6);
}

TEST_MAIN()
