// A cycle allocates nothing once its buffers have grown.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/combined_proposer.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"
#include "toy_model.h"

namespace {

using namespace specdec;

constexpr int vocabulary = 40, context = 1 << 20;

// A toy model whose own allocations are not counted.
class ToyModel final : public LanguageModel {
 public:
  explicit ToyModel(std::uint64_t seed) : model_(vocabulary, seed, context, 4096, 2), hash_(vocabulary, seed) {
    // The logits depend on the last three tokens only, because sequences are long here.
    model_.table = [this](const std::vector<Token>& text) {
      return hash_.logits_after({text.end() - std::min<std::ptrdiff_t>(3, text.end() - text.begin()), text.end()});
    };
  }

  int vocabulary_size() const override { return model_.vocabulary_size(); }
  int context_length() const override { return model_.context_length(); }
  int batch_size() const override { return model_.batch_size(); }
  int row_capacity() const override { return model_.row_capacity(); }
  int pass_size() const override { return model_.pass_size(); }
  bool is_end_of_generation(Token) const override { return false; }
  void decode(const std::vector<PassInput>& inputs) override {
    const allocations::Pause theirs;
    model_.decode(inputs);
  }
  const float* logits(int row) const override { return model_.logits(row); }
  int length(int slot) const override { return model_.length(slot); }
  void truncate(int slot, int length) override { model_.truncate(slot, length); }
  void copy(int from, int to) override { model_.copy(from, to); }

 private:
  toy::Model model_, hash_;
};

std::unique_ptr<Sequence> sequence_of(const sampling::SamplingParams& params, int num_draft_tokens, int slot) {
  auto s = std::make_unique<Sequence>(slot, params,
                                      std::make_unique<sampling::PhiloxUniforms>(7, static_cast<std::uint64_t>(slot)));
  s->tokens = {3, 1, 4, 1, 5};
  s->num_committed = 5;
  s->num_draft_tokens = num_draft_tokens;
  s->remaining = 1 << 16;
  return s;
}

// Allocations of 100 cycles of two sequences in one batch. Before them, drafts of all lengths are made.
int allocations_of_cycles(const sampling::SamplingParams& params, Verification verification, Drafting drafting, int k,
                          Proposer* proposer, LanguageModel& target, int num_top_logprobs = 0) {
  AdaptiveDraftLength draft_length;
  Decoder decoder(target, proposer, &draft_length);
  const auto first = sequence_of(params, k, 0), second = sequence_of(params, k, 1);
  const std::vector<Sequence*> both = {first.get(), second.get()};
  for (Sequence* s : both) {
    s->verification = verification;
    s->drafting = drafting;
    s->num_top_logprobs = num_top_logprobs;
    decoder.prefill(*s);
    if (k != 0) s->num_draft_tokens = max_draft_tokens;
  }
  for (int cycle = 0; cycle < 20; ++cycle) decoder.cycle(both);
  for (Sequence* s : both) s->num_draft_tokens = k;
  for (int cycle = 0; cycle < 200; ++cycle) decoder.cycle(both);
  const int before = allocations::count;
  for (int cycle = 0; cycle < 100; ++cycle) decoder.cycle(both);
  return allocations::count - before;
}

sampling::SamplingParams params_of(double temperature, int top_k, double top_p, double min_p) {
  sampling::SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

sampling::SamplingParams with_penalties(sampling::SamplingParams params) {
  params.repeat_penalty = 1.1;
  params.frequency_penalty = 0.1;
  params.penalty_last_n = -1;
  params.logit_bias = {{7, 1.0}, {9, -2.0}};
  return params;
}

}  // namespace

TEST(an_allocation_is_counted) {
  const int before = allocations::count;
  std::vector<int> numbers;
  numbers.reserve(10);
  CHECK(allocations::count == before + 1);
  const allocations::Pause theirs;
  numbers.reserve(100);
  CHECK(allocations::count == before + 1);
}

TEST(a_cycle_allocates_nothing) {
  const sampling::SamplingParams all_params[] = {params_of(0.0, 40, 0.95, 0.05),
                                                 params_of(0.8, 40, 0.95, 0.05),
                                                 params_of(1.0, 5, 1.0, 0.0),
                                                 params_of(1.0, 0, 1.0, 0.0),
                                                 with_penalties(params_of(0.8, 10, 0.95, 0.0)),
                                                 with_penalties(params_of(0.0, 0, 1.0, 0.0))};
  for (const auto& params : all_params) {
    for (const int k : {0, 3, auto_draft_tokens}) {
      for (const auto verification : {Verification::token, Verification::block, Verification::invariant}) {
        for (const auto drafting : {Drafting::sampled, Drafting::argmax}) {
          ToyModel target(1), draft(2);
          DraftModelProposer proposer(draft, vocabulary);
          CHECK(allocations_of_cycles(params, verification, drafting, k, &proposer, target) == 0);
        }
      }
      ToyModel target(1);
      NgramProposer proposer;
      CHECK(allocations_of_cycles(params, Verification::block, Drafting::sampled, k, &proposer, target) == 0);
    }
  }
}

TEST(reporting_the_most_likely_tokens_allocates_nothing) {
  for (const int k : {0, 3}) {
    ToyModel target(1), draft(2);
    DraftModelProposer proposer(draft, vocabulary);
    const auto params = params_of(0.8, 40, 0.95, 0.05);
    CHECK(allocations_of_cycles(params, Verification::block, Drafting::sampled, k, &proposer, target, 20) == 0);
  }
}

// The index of the text grows, by doubling: two sequences, each with a text, nodes and edges that may double.
TEST(a_cycle_that_copies_text_allocates_almost_never) {
  const auto params = params_of(0.8, 40, 0.95, 0.05);
  for (const int k : {3, auto_draft_tokens}) {
    ToyModel target(1);
    SuffixProposer proposer;
    CHECK(allocations_of_cycles(params, Verification::block, Drafting::sampled, k, &proposer, target) <= 8);
  }
  for (const int k : {3, auto_draft_tokens}) {
    for (const auto verification : {Verification::token, Verification::block, Verification::invariant}) {
      ToyModel target(1), draft(2);
      CombinedProposer proposer({draft, vocabulary});
      CHECK(allocations_of_cycles(params, verification, Drafting::sampled, k, &proposer, target) <= 8);
    }
  }
}

TEST_MAIN()
