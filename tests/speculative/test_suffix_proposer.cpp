// Suffix decoding: which tokens it proposes, for one sequence and many, and after tokens were dropped.
#include <algorithm>
#include <map>
#include <memory>

#include "check.h"
#include "simulated_decoding.h"
#include "speculative/suffix_proposer.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

std::unique_ptr<Sequence> sequence_of(Tokens text, int slot = 0, double temperature = 0.0) {
  sampling::SamplingParams params;
  params.temperature = temperature;
  auto s = std::make_unique<Sequence>(slot, params, std::make_unique<sampling::PhiloxUniforms>(1, 0));
  s->num_committed = static_cast<int>(text.size());
  s->tokens = std::move(text);
  return s;
}

Tokens proposal(SuffixProposer& proposer, Sequence& s, int num_tokens) {
  s.drop_drafts_after(0);
  Stats stats;
  proposer.propose({{&s, num_tokens}}, stats);
  for (int i = 0; i < s.num_drafted(); ++i) {  // one-hot
    CHECK(s.draft_row(i).probability(s.tokens[static_cast<std::size_t>(s.num_committed + i)]) == 1.0);
  }
  return Tokens(s.tokens.begin() + s.num_committed, s.tokens.end());
}

Tokens proposal(const Tokens& text, int num_tokens) {
  SuffixProposer proposer;
  return proposal(proposer, *sequence_of(text), num_tokens);
}

Tokens random_text(simulated::Random& random, int vocabulary, int length) {
  Tokens text;
  for (int i = 0; i < length; ++i) text.push_back(static_cast<Token>(random() * vocabulary));
  return text;
}

}  // namespace

TEST(continues_the_longest_match_with_what_followed_most_often) {
  CHECK(proposal({1, 2, 7, 5, 1, 2, 7, 6, 1, 2, 8, 1, 2}, 1) == Tokens({7}));     // twice 7, then once 8
  CHECK(proposal({4, 1, 2, 8, 1, 2, 7, 3, 1, 2, 7, 4, 1, 2}, 1) == Tokens({8}));  // the match of three tokens
  CHECK(proposal({1, 2, 3, 9, 1, 2, 3, 7, 1, 2, 3}, 2) == Tokens({7, 1}));        // of equal ones, the later
  CHECK(proposal({1, 2, 5, 1, 2, 6, 3, 1, 2, 6, 4, 2}, 3) ==
        Tokens({6, 4, 2}));  // each step counts from zero: 6, then the later of 3 and 4
  CHECK(proposal({1, 2, 3, 4, 5, 6, 1, 2}, 4) == Tokens({3, 4, 5, 6}));
}

TEST(goes_on_after_the_end_of_the_text) {
  CHECK(proposal({1, 2, 1, 2, 1}, 6) == Tokens({2, 1, 2, 1, 2, 1}));
  CHECK(proposal({3, 3}, 63) == Tokens(63, 3));
}

TEST(goes_on_beyond_the_depth_of_the_index) {
  Tokens text;
  for (int copy = 0; copy < 3; ++copy) {
    for (Token token = 0; token < 100; ++token) text.push_back(token);
  }
  Tokens expected;
  for (Token token = 20; token < 83; ++token) expected.push_back(token);
  text.resize(220);
  CHECK(proposal(text, 63) == expected);
}

TEST(proposes_nothing_without_a_match) {
  CHECK(proposal({1, 2, 3}, 4).empty());
  CHECK(proposal({1}, 4).empty());
}

// What a cycle leaves behind does not change later proposals: tokens read in pieces, dropped, and read again.
TEST(dropped_tokens_are_not_proposed) {
  simulated::Random random(3);
  for (int round = 0; round < 40; ++round) {
    SuffixProposer proposer;
    const auto s = sequence_of(random_text(random, 3, 50));
    for (int step = 0; step < 20; ++step) {
      const int num_tokens = 1 + static_cast<int>(random() * 8);
      const Tokens drafts = proposal(proposer, *s, num_tokens);
      CHECK(drafts == proposal(Tokens(s->tokens.begin(), s->tokens.begin() + s->num_committed), num_tokens));
      s->drop_drafts_after(0);
      const int length = std::max(1, s->num_committed - static_cast<int>(random() * 10));
      proposer.truncate(s->slot, length);
      s->tokens.resize(static_cast<std::size_t>(length));
      for (const Token token : random_text(random, 3, 5)) s->tokens.push_back(token);
      s->num_committed = length + 5;
    }
  }
}

TEST(each_slot_has_its_own_text) {
  SuffixProposer proposer;
  const auto a = sequence_of({1, 2, 3, 1}, 0), b = sequence_of({1, 7, 8, 1}, 2), c = sequence_of({1, 2, 3, 9, 3}, 1);
  CHECK(proposal(proposer, *a, 2) == Tokens({2, 3}));
  CHECK(proposal(proposer, *b, 2) == Tokens({7, 8}));
  CHECK(proposal(proposer, *a, 2) == Tokens({2, 3}));
  proposer.copy(0, 1);
  proposer.truncate(1, 3);
  CHECK(proposal(proposer, *c, 1) == Tokens({9}));
  CHECK(proposal(proposer, *a, 2) == Tokens({2, 3}));
}

TEST(earlier_outputs_are_proposed) {
  SuffixProposer proposer;
  const Tokens first = {5, 6, 7, 8}, second = {5, 6, 7, 9, 5, 6, 7, 9};
  const auto s = sequence_of({4, 5, 6});
  CHECK(proposal(proposer, *s, 3).empty());
  proposer.remember(first.data(), 4);
  CHECK(proposal(proposer, *s, 5) == Tokens({7, 8}));  // not beyond the output's end
  proposer.remember(second.data(), 8);
  CHECK(proposal(proposer, *s, 2) == Tokens({7, 9}));  // more often
  // A longer match in the sequence's own text, that occurred as often; then one that occurred only once.
  CHECK(proposal(proposer, *sequence_of({4, 5, 6, 2, 4, 5, 6, 2, 4, 5, 6, 2, 4, 5, 6}), 1) == Tokens({2}));
  CHECK(proposal(proposer, *sequence_of({4, 5, 6, 2, 4, 5, 6}, 1), 1) == Tokens({7}));
}

// The second output does not follow the first: neither a draft nor a match runs from one into the other.
TEST(an_earlier_output_ends_where_it_ends) {
  SuffixProposer proposer;
  const Tokens first = {5, 6, 7}, second = {8, 9, 3};
  proposer.remember(first.data(), 3);
  proposer.remember(second.data(), 3);
  CHECK(proposal(proposer, *sequence_of({4, 5, 6}), 4) == Tokens({7}));
  CHECK(proposal(proposer, *sequence_of({4, 6, 7}), 4).empty());
  EarlierOutputs outputs;
  outputs.add(first.data(), 3);
  outputs.add(second.data(), 3);
  const Tokens across = {7, 8};
  CHECK(outputs.halves()[0].find(across.data(), 2).length == 1);
}

// With token and block verification and a number for K, a seed repeats its output.
TEST(earlier_outputs_are_not_proposed_where_a_seed_must_repeat_the_drafts) {
  SuffixProposer proposer;
  const Tokens output = {5, 6, 7, 8};
  proposer.remember(output.data(), 4);
  const auto s = sequence_of({4, 5, 6}, 0, 0.8);
  for (const Verification verification : {Verification::token, Verification::block}) {
    s->verification = verification;
    s->num_draft_tokens = 3;
    CHECK(proposal(proposer, *s, 3).empty());
    s->num_draft_tokens = auto_draft_tokens;  // then every request has its own random numbers
    CHECK(!proposal(proposer, *s, 3).empty());
  }
  s->verification = Verification::invariant;
  s->num_draft_tokens = 3;
  CHECK(!proposal(proposer, *s, 3).empty());
}

TEST(the_oldest_outputs_are_forgotten) {
  EarlierOutputs outputs;
  const auto knows = [&](Token token) {
    const auto& halves = outputs.halves();
    return std::any_of(halves.begin(), halves.end(),
                       [&](const SuffixIndex& half) { return half.find(&token, 1).length == 1; });
  };
  constexpr int length = 1000;
  constexpr int kept = EarlierOutputs::max_tokens / (length + 1);
  for (Token id = 0; id < 200; ++id) {
    outputs.add(Tokens(length, id).data(), length);
    CHECK(outputs.halves()[0].length() + outputs.halves()[1].length() <= EarlierOutputs::max_tokens);
    CHECK(knows(id) && (id < kept / 2 - 1 || knows(id - kept / 2 + 1)));
    CHECK(id < kept || !knows(id - kept));
  }
  Tokens text(EarlierOutputs::max_tokens, 1001);  // of an output that is too long, the end is kept
  text.front() = 1000;
  outputs.add(text.data(), static_cast<int>(text.size()));
  CHECK(knows(1001) && !knows(1000));
  outputs.add(text.data(), 0);
}

TEST_MAIN()
