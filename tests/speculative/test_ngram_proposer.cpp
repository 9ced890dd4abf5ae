// N-gram lookup: which tokens it proposes.
#include <memory>

#include "check.h"
#include "speculative/ngram_proposer.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

Tokens proposal(Tokens text, int num_tokens, NgramProposer proposer = NgramProposer()) {
  Sequence s(0, sampling::SamplingParams(), std::make_unique<sampling::PhiloxUniforms>(1, 0));
  s.num_committed = static_cast<int>(text.size());
  s.tokens = std::move(text);
  Stats stats;
  proposer.propose({{&s, num_tokens}}, stats);
  for (int i = 0; i < s.num_drafted(); ++i) {  // one-hot
    CHECK(s.draft_row(i).probability(s.tokens[static_cast<std::size_t>(s.num_committed + i)]) == 1.0);
  }
  return Tokens(s.tokens.begin() + s.num_committed, s.tokens.end());
}

}  // namespace

TEST(continues_the_latest_copy_of_the_longest_suffix) {
  CHECK(proposal({1, 2, 3, 9, 8, 1, 2, 3}, 4) == Tokens({9, 8, 1, 2}));
  CHECK(proposal({1, 2, 3, 9, 1, 2, 3, 7, 1, 2, 3}, 2) == Tokens({7, 1}));  // the latest copy
  CHECK(proposal({5, 2, 3, 6, 4, 3, 7, 2, 3}, 1) ==
        Tokens({6}));                                  // a match of two tokens is preferred to a later one of one token
  CHECK(proposal({4, 3, 7, 3}, 3) == Tokens({7, 3}));  // no more than follow the match
}

TEST(finds_a_copy_at_the_start_of_the_text) {
  CHECK(proposal({4, 7, 8, 4}, 2) == Tokens({7, 8}));
  CHECK(proposal({1, 2, 3, 9, 8, 2, 7, 1, 2, 3}, 1) == Tokens({9}));
  CHECK(proposal({1, 2, 5, 1, 2}, 4, NgramProposer(2, 2)) == Tokens({5, 1, 2}));
}

TEST(proposes_nothing_without_a_match) {
  CHECK(proposal({1, 2, 3}, 4).empty());
  CHECK(proposal({1}, 4).empty());
  CHECK(proposal({1, 2, 1}, 4, NgramProposer(3, 2)).empty());
}

TEST(sizes_are_checked) {
  CHECK_THROWS(NgramProposer(1, 2), std::invalid_argument, "min <= max");
  CHECK_THROWS(NgramProposer(1, 0), std::invalid_argument, "min <= max");
}

TEST_MAIN()
