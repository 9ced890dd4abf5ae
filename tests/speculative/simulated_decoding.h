// Speculative decoding in simulated time. Costs, confidences and verdicts are simulated, so the speed of every fixed K
// is known exactly, and the adaptive draft length can be compared with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "speculative/draft_length.h"
#include "toy_model.h"

namespace simulated {

using namespace specdec;

// Uniforms in [0, 1), the same in every run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(toy::mix(seed)) {}
  double operator()() { return static_cast<double>(toy::mix(state_ += 0x9E3779B97F4A7C15ull) >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// A kind of place in a sequence: its frequency, the draft's confidence there, the probability of acceptance.
struct Place {
  double share, confidence, acceptance;
};

// Stretches of the text that repeat earlier text: there, copies up to the stretch's end are proposed.
struct Repetition {
  int apart, length;              // tokens
  double confidence, acceptance;  // of each copy
};

struct World {
  std::function<double(int)> target_pass;  // seconds by columns
  std::function<double(int)> draft_pass;   // by tokens; null: there are copies only, which cost nothing
  std::vector<Place> places;
  int num_sequences = 1;
  double noise = 0.05;     // passes take longer, by up to ten times this fraction, by half of it on average
  double drift = 0.0;      // of the machine's speed, per cycle
  double change = 0.0;     // extra seconds of a target pass whose size differs from the last one's; for one sequence
  double proposing = 1.0;  // share of cycles in which the proposer has something to propose; for one sequence
  std::optional<Repetition> repetition = {};  // with a draft model
  bool fills_blocks = false;                  // one pass of the draft makes all of a cycle's drafts

  double acceptance() const {
    double mean = 0.0;
    for (const Place& p : places) mean += p.share * p.acceptance;
    return mean;
  }
  // Tokens per second, without disturbances.
  double fixed(int k) const {
    double tokens = 1.0, survival = 1.0;
    for (int place = 0; place < k; ++place) tokens += survival *= acceptance();
    const double drafting = draft_pass ? (fills_blocks ? std::min(k, 1) : k) * draft_pass(num_sequences) : 0.0;
    const double cycle = drafting + target_pass(num_sequences * (1 + k)),
                 changes = k > 0 ? 2.0 * proposing * (1.0 - proposing) : 0.0;
    return num_sequences * (proposing * tokens + 1.0 - proposing) /
           (proposing * cycle + (1.0 - proposing) * target_pass(num_sequences) + changes * change);
  }
  double plain() const { return fixed(0); }
  double best_fixed() const {
    double best = 0.0;
    for (int k = 0; k <= 24; ++k) best = std::max(best, fixed(k));
    return best;
  }
};

struct Speed {
  double tokens = 0.0, seconds = 0.0;
  double rate() const { return tokens / seconds; }
  void operator+=(const Speed& other) { tokens += other.tokens, seconds += other.seconds; }
};

// A sequence of one token.
struct SimulatedText {
  SimulatedText() {
    sequence.tokens = {0};
    sequence.num_committed = 1;
    sequence.num_draft_tokens = auto_draft_tokens;
  }
  Sequence sequence{0, sampling::SamplingParams(), std::make_unique<sampling::PhiloxUniforms>(1, 0)};
  double survival = 1.0;
  double expected = 0.0;  // accepted drafts
  bool rejected = false;
  int num_accepted = 0;
  int num_read = 0;  // drafts that the draft model has read, or is to read next

  void take(double acceptance, bool is_right) {
    survival *= acceptance;
    expected += survival;
    rejected = rejected || !is_right;
    if (!rejected) ++num_accepted;
  }
};

constexpr Token right = 0, wrong = 1;  // what the target chooses, and what it does not

// A machine on which a rule decodes sequence after sequence. The rule sees disturbed times and random verdicts; the
// returned speed uses undisturbed times and expected tokens, which reduces its variance.
class Machine {
 public:
  explicit Machine(DraftLength& rule, std::uint64_t seed = 1) : rule_(rule), random_(seed) {}

  Speed cycles(const World& world, int num_cycles) {
    Speed sum;
    for (int i = 0; i < num_cycles; ++i) cycle(world, sum);
    return sum;
  }
  Speed text(const World& world, double num_tokens) {
    Speed sum;
    while (sum.tokens < num_tokens * world.num_sequences) cycle(world, sum);
    return sum;
  }

 private:
  static constexpr int most_drafts = 24;

  double takes(const World& world, double seconds) {
    const double tail = std::min(10.0, 0.5 / std::sqrt(random_() + 1e-12) - 0.5);
    return seconds * std::exp(log_slowness_) * (1.0 + world.noise * tail);
  }

  const Place& next_place(const World& world) {
    double u = random_();
    for (const Place& p : world.places) {
      if (u < p.share) return p;
      u -= p.share;
    }
    return world.places.back();
  }

  // Copies are all known at once. Without a draft model every place has one.
  void copy(const World& world, SimulatedText& t, int num_unread) {
    std::vector<Place> places;
    if (!world.draft_pass) {
      for (int i = 0; i < most_drafts; ++i) places.push_back(next_place(world));
    } else {
      const Repetition& r = *world.repetition;
      places.assign(static_cast<std::size_t>(std::min(num_repeating_, most_drafts)), {1.0, r.confidence, r.acceptance});
    }
    if (places.empty()) return;
    std::vector<Copy> copies;
    for (const Place& place : places)
      copies.push_back({random_() < place.acceptance ? right : wrong, place.confidence});
    const int count = rule_.worth_copying(t.sequence, copies, world.draft_pass ? num_unread : no_draft_model);
    for (int i = 0; i < count; ++i) {
      const auto place = static_cast<std::size_t>(i);
      t.sequence.add_draft(right, DraftOrigin::suffix);
      t.take(places[place].acceptance, copies[place].token == right);
    }
  }

  // For one sequence.
  void go_on(const Repetition& repetition, int num_made) {
    for (int i = 0; i < num_made; ++i) {
      if (num_repeating_ > 0) --num_repeating_;
      else if (++num_apart_ >= repetition.apart) num_repeating_ = repetition.length, num_apart_ = 0;
    }
  }

  // False where the sequence ends.
  bool draft(const World& world, SimulatedText& t) {
    Sequence& s = t.sequence;
    const Place& place = next_place(world);
    t.num_read = s.num_drafted();
    if (!rule_.worth_a_draft(s, place.confidence)) return false;
    s.add_draft(right, DraftOrigin::model);
    rule_.drafted(s, {place.confidence, place.confidence});
    t.take(place.acceptance, random_() < place.acceptance);
    return s.num_drafted() < most_drafts;
  }

  void cycle(const World& world, Speed& sum) {
    log_slowness_ = 0.995 * log_slowness_ + world.drift * (2.0 * random_() - 1.0);
    const int num_sequences = world.num_sequences;
    num_unread_.resize(static_cast<std::size_t>(num_sequences), 1);
    std::vector<SimulatedText> texts(static_cast<std::size_t>(num_sequences));
    std::vector<SimulatedText*> running, going_on;
    const auto unread = [&](const SimulatedText& t) {  // while nothing was read in this cycle
      return num_unread_[static_cast<std::size_t>(&t - texts.data())] + t.sequence.num_drafted();
    };
    const auto worth_a_row = [&](const SimulatedText& t) { return rule_.worth_a_row(t.sequence, unread(t)); };
    rule_.begin_cycle(num_sequences);
    const bool is_proposing = world.proposing == 1.0 || random_() < world.proposing;
    for (SimulatedText& t : texts) {
      if (!is_proposing) continue;
      if (!world.draft_pass || world.repetition) copy(world, t, unread(t));
      if (world.draft_pass && worth_a_row(t)) running.push_back(&t);
    }
    double undisturbed = 0.0, proposing = 0.0;
    std::vector<bool> has_read(texts.size(), false);
    for (bool first = true; !running.empty(); first = false) {
      const auto rows = static_cast<int>(running.size());
      int num_tokens = rows;
      for (SimulatedText* t : running) {
        if (first && world.repetition) num_tokens += unread(*t) - 1;
        has_read[static_cast<std::size_t>(t - texts.data())] = true;
      }
      const bool is_there = world.fills_blocks && !first;
      const double pass = is_there ? 0.0 : world.draft_pass(num_tokens);
      const double measured = takes(world, pass);
      undisturbed += pass;
      proposing += measured;
      going_on.clear();
      for (SimulatedText* t : running) {
        if (draft(world, *t) && rule_.worth_a_row(t->sequence, world.fills_blocks ? 0 : 1)) going_on.push_back(t);
      }
      if (!is_there) rule_.record_draft_pass(rows, num_tokens, measured);
      running.swap(going_on);
    }
    int longest = 0, num_made = 0;
    double tokens = num_sequences;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const SimulatedText& t = texts[i];
      longest = std::max(longest, t.sequence.num_drafted());
      num_made += t.num_accepted + 1;
      tokens += t.expected;
      num_unread_[i] =
          has_read[i] ? t.num_accepted + 1 - std::min(t.num_read, t.num_accepted) : num_unread_[i] + t.num_accepted + 1;
      rule_.observe(t.sequence, t.num_accepted, right);
    }
    if (world.repetition) go_on(*world.repetition, num_made);
    const int columns = num_sequences * (1 + longest);  // every sequence has as many as the longest draft needs
    const double pass = world.target_pass(columns) + (columns != latest_columns_ ? world.change : 0.0);
    latest_columns_ = columns;
    rule_.end_cycle(columns, num_made, proposing + takes(world, pass), proposing);
    sum.seconds += undisturbed + pass;
    sum.tokens += tokens;
  }

  DraftLength& rule_;
  Random random_;
  double log_slowness_ = 0.0;
  int latest_columns_ = 1;
  int num_repeating_ = 0, num_apart_ = 0;  // tokens to the end of the repetition, and since the last one
  std::vector<int> num_unread_;            // committed tokens that the draft model has not read, by sequence
};

}  // namespace simulated
