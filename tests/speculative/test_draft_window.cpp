// The window of a draft model: what it reads, when, and that a text repeats whatever was cached of it.

#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "check.h"
#include "draft_rule.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/combined_proposer.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/draft_window.h"
#include "toy_model.h"
#include "toy_window.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

constexpr int vocabulary = 6;
constexpr int windows[] = {1, 2, 3, 4, 5, 7, 8, 16, 23, 64};

Tokens random_text(int length, std::uint64_t seed) {
  Tokens text;
  for (int i = 0; i < length; ++i)
    text.push_back(static_cast<Token>(toy::mix(seed * 1000 + static_cast<std::uint64_t>(i)) % vocabulary));
  return text;
}

struct Options {
  int k = 3, max_tokens = 30, slot = 0;
  double temperature = 0.9;
  Verification verification = Verification::block;
  std::uint64_t seed = 5;
};

std::unique_ptr<Sequence> sequence_of(const Tokens& prompt, const Options& options) {
  sampling::SamplingParams params;
  params.temperature = options.temperature;
  auto s =
      std::make_unique<Sequence>(options.slot, params, std::make_unique<sampling::PhiloxUniforms>(options.seed, 0));
  s->tokens = prompt;
  s->num_committed = static_cast<int>(prompt.size());
  s->stats.prompt_tokens = s->num_committed;
  s->num_draft_tokens = options.k;
  s->remaining = options.max_tokens;
  s->verification = options.verification;
  return s;
}

void finish(Decoder& decoder, Sequence& s) {
  decoder.prefill(s);
  while (s.finish == Finish::none) {
    decoder.cycle({&s});
    if (s.error) std::rethrow_exception(s.error);
  }
}

// A target and a draft with a window.
struct Pair {
  explicit Pair(int window, int slots = 1, bool copies = false)
      : target(vocabulary, 1, 2048, 600, slots), draft(vocabulary, 2, window, 600, slots) {
    DraftModelProposer model(draft, vocabulary, window);
    if (copies) proposer = std::make_unique<CombinedProposer>(std::move(model), nullptr, CopiedTexts::all, 0.3);
    else proposer = std::make_unique<DraftModelProposer>(std::move(model));
    decoder = std::make_unique<Decoder>(target, proposer.get());
  }
  toy::Model target;
  toy::WindowModel draft;
  std::unique_ptr<Proposer> proposer;
  std::unique_ptr<Decoder> decoder;
};

}  // namespace

TEST(windows_are_full_but_for_a_stride_and_move_up_by_it) {
  for (const int size : windows) {
    toy::WindowModel model(vocabulary, 1, size);
    const DraftWindow window(model, size);
    for (int p = 0; p < 300; ++p) {
      const int held = p + 1 - window.begin(p);
      CHECK(held <= size);
      CHECK(window.begin(p) == 0 || held > size - std::max(1, size / 4));
      CHECK(window.begin(p) <= window.begin(p + 1));
      int end = p + 1;
      while (window.begin(end) == window.begin(p)) ++end;
      CHECK(window.end(p) == end);
    }
  }
}

// However the tokens come, with drafts that are rolled back and other sequences' passes between.
TEST(what_is_read_depends_on_where_reading_began_alone) {
  const Tokens text = random_text(200, 3);
  for (const bool slides : {true, false}) {
    for (const int size : windows) {
      if (size < 7) continue;  // steps that leave the window begin anew
      for (int start = 1; start < 60; start += 7) {
        std::vector<Token> values[2];
        for (const int step : {1, 5}) {
          toy::WindowModel model(vocabulary, 1, size);
          model.slides = slides;
          DraftWindow window(model, size);
          Sequence s(0, {}, nullptr);
          std::vector<Token>& seen = values[step == 1 ? 0 : 1];
          for (int last = start; last < 190; last += step == 1 ? 1 : 1 + last % step) {
            s.tokens.assign(text.begin(), text.begin() + last + 1);
            window.open(s, last);
            const int unread = window.num_unread(0, last);
            CHECK(unread >= 1);
            model.decode({{0, s.tokens.data() + model.length(0), unread, 1}});
            CHECK(model.length(0) == last + 1);
            CHECK(model.first(0) <= window.begin(last) && last + 1 - model.first(0) <= size);
            seen.resize(static_cast<std::size_t>(last) + 1, -1);
            seen.back() = model.last_value(0);
            const Tokens drafts =
                random_text(std::min(3, window.end(last) - last - 1), static_cast<std::uint64_t>(last));
            if (!drafts.empty()) model.decode({{0, drafts.data(), static_cast<int>(drafts.size()), 0}});
            window.truncate(0, last + 1);
            CHECK(model.length(0) == last + 1);
          }
        }
        for (std::size_t p = 0; p < values[1].size(); ++p) {
          if (values[1][p] >= 0) CHECK(values[1][p] == values[0][p]);
        }
      }
    }
  }
}

TEST(a_window_is_cut_to_a_beginning_of_itself_or_read_again) {
  const Tokens text = random_text(100, 4);
  toy::WindowModel model(vocabulary, 1, 16);
  DraftWindow window(model, 16);
  Sequence s(0, {}, nullptr);
  s.tokens = text;
  window.read_before(s, 50, 1000);
  CHECK(model.length(0) == 50 && model.first(0) == window.begin(49));
  window.truncate(0, 49);
  CHECK(model.length(0) == 49);
  window.truncate(0, 20);  // its window begins earlier than what is left
  CHECK(model.length(0) == 0 && model.first(0) == 0);
  window.read_before(s, 90, 5);
  CHECK(model.first(0) == window.begin(90) && model.length(0) == window.begin(90) + 5);
}

TEST(a_seed_repeats_whatever_is_cached) {
  for (const bool copies : {false, true}) {
    for (const int size : windows) {
      for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
        for (const int k : {1, 3, 8}) {
          Options options;
          options.k = k;
          options.verification = verification;
          const Tokens prompt = random_text(80, 7);
          Pair fresh(size, 1, copies);
          const auto expected = sequence_of(prompt, options);
          finish(*fresh.decoder, *expected);
          CHECK(fresh.draft.num_read > 0);
          for (const int before : {10, 40, 79}) {  // another request had the same beginning
            Pair used(size, 1, copies);
            Options other = options;
            other.seed = 11;
            const auto earlier = sequence_of(Tokens(prompt.begin(), prompt.begin() + before), other);
            finish(*used.decoder, *earlier);
            used.decoder->keep_prefix(0, before - 1);
            const auto s = sequence_of(prompt, options);
            finish(*used.decoder, *s);
            CHECK(s->tokens == expected->tokens);
            CHECK(s->stats.drafted == expected->stats.drafted);
          }
        }
      }
    }
  }
}

TEST(texts_are_the_same_for_every_window) {
  const Tokens prompt = random_text(90, 8);
  for (const double temperature : {0.0, 0.9}) {
    Options options;
    options.temperature = temperature;
    options.verification = Verification::invariant;
    options.k = 0;
    toy::Model alone(vocabulary, 1, 2048, 600);
    Decoder plain(alone, nullptr);
    const auto expected = sequence_of(prompt, options);
    finish(plain, *expected);
    for (const int size : windows) {
      for (const int k : {1, 4, auto_draft_tokens}) {
        Pair pair(size);
        options.k = k;
        const auto s = sequence_of(prompt, options);
        finish(*pair.decoder, *s);
        CHECK(s->tokens == expected->tokens);
      }
    }
  }
}

// A draft that is the target has all its drafts accepted as long as both read the same.
TEST(drafts_follow_from_the_window) {
  constexpr int size = 32;
  const Tokens prompt = random_text(20, 9);
  Options options;
  options.temperature = 0.0;
  options.max_tokens = 40;
  toy::Model target(vocabulary, 1, 2048, 600);
  toy::WindowModel draft(vocabulary, 1, size);
  draft.keeps_values = false;
  DraftModelProposer proposer(draft, vocabulary, size);
  Decoder decoder(target, &proposer);
  const auto s = sequence_of(prompt, options);
  decoder.prefill(*s);
  while (s->num_committed + 4 < size) {
    decoder.cycle({s.get()});
    CHECK(s->emitted.size() == 4);
  }
}

TEST(no_token_waits_for_the_draft_to_read_a_long_prompt) {
  constexpr int size = 1024;
  const Tokens prompt = random_text(1500, 10);
  Pair pair(size);
  Options options;
  const auto s = sequence_of(prompt, options);
  while (!pair.decoder->prefill(*s, 512)) CHECK(pair.draft.num_read == 0);
  pair.decoder->cycle({s.get()});
  CHECK(pair.draft.num_read == 0 && s->emitted.size() == 1);
  for (int cycle = 1; cycle <= 3; ++cycle) {
    const int before = pair.draft.num_read;
    pair.decoder->cycle({s.get()});
    CHECK(pair.draft.num_read == before + 256 && s->stats.drafted == 0);
  }
  pair.decoder->cycle({s.get()});
  CHECK(s->stats.drafted > 0 && s->stats.draft_tokens_read == pair.draft.num_read);
  CHECK(pair.draft.num_read <= size + options.k);

  Pair brief(size);  // a short one is read at once
  const auto t = sequence_of(random_text(40, 11), options);
  brief.decoder->prefill(*t);
  brief.decoder->cycle({t.get()});
  CHECK(t->stats.drafted == options.k);
}

// Cycles of 30 ms, drafts of 7, and 3.5 ms for each token that the draft reads.
TEST(auto_counts_the_catching_up) {
  AdaptiveDraftLength rule;
  const auto plain_cycles = [&](int count) {
    for (int i = 0; i < count; ++i) {
      rule.begin_cycle(1);
      rule.end_cycle(1, 1, 0.030, 0.0);
    }
  };
  Sequence s(0, {}, nullptr);
  s.remaining = 1000000;
  CHECK(rule.worth_catching_up(s, 1000));  // nothing is known yet
  plain_cycles(10);
  rule.begin_cycle(1);
  rule.end_cycle(4, 3, 0.036, 0.0);
  rule.record_draft_pass(1, 1, 0.007);
  rule.record_catching_up(256, 0.9);
  CHECK(!rule.worth_catching_up(s, 4000));  // 14 seconds for an output of perhaps 256 tokens
  s.stats.tokens = 100000;                  // it goes on
  CHECK(rule.worth_catching_up(s, 4000));
  s.remaining = 20;
  CHECK(!rule.worth_catching_up(s, 768) && rule.worth_catching_up(s, 3));
  int cycles = 0;
  for (; !rule.worth_catching_up(s, 768) && cycles < 100000; ++cycles) plain_cycles(1);
  CHECK(cycles > 1000 && cycles < 20000);  // once in a while: 1 % of the time
  rule.record_catching_up(768, 2.7);
  CHECK(!rule.worth_catching_up(s, 768));
}

TEST(auto_reads_in_pieces_and_only_if_it_is_worth_it) {
  struct Rule final : toy::DraftRule {
    bool worth_a_row(const Sequence& s, int num_unread) override {
      CHECK(num_unread <= 65);
      return s.num_drafted() < 3;
    }
    bool worth_a_draft(const Sequence&, double) override { return true; }
    bool worth_catching_up(const Sequence&, int num_unread) override {
      asked = num_unread;
      return answer;
    }
    void record_catching_up(int num_tokens, double) override { read += num_tokens; }
    bool answer = false;
    int asked = 0, read = 0;
  } rule;
  toy::Model target(vocabulary, 1, 2048, 600);
  toy::WindowModel draft(vocabulary, 2, 512);
  DraftModelProposer proposer(draft, vocabulary, 512);
  Decoder decoder(target, &proposer, &rule);
  Options options;
  options.k = auto_draft_tokens;
  const auto s = sequence_of(random_text(1000, 13), options);
  decoder.prefill(*s);
  decoder.cycle({s.get()});
  CHECK(rule.asked == 0 && draft.num_read == 0);
  decoder.cycle({s.get()});
  CHECK(rule.asked > 384 && rule.asked <= 512 && draft.num_read == 0 && s->stats.drafted == 0);
  rule.answer = true;
  decoder.cycle({s.get()});
  CHECK(rule.read == 256 && draft.num_read == 256 && s->stats.drafted == 0);
  decoder.cycle({s.get()});
  CHECK(rule.read > 384 && s->stats.drafted > 0);
}

TEST(an_interrupted_reading_goes_on) {
  const Tokens prompt = random_text(1000, 12);
  Options options;
  Pair calm(512);
  const auto expected = sequence_of(prompt, options);
  finish(*calm.decoder, *expected);
  for (int at = 1; at <= calm.draft.num_passes + 2; ++at) {
    Pair pair(512);
    int passes = 0;
    pair.draft.before_pass = [&] {
      if (++passes == at) throw Cancelled("now");
    };
    const auto s = sequence_of(prompt, options);
    decltype(passes) interruptions = 0;
    pair.decoder->prefill(*s);
    while (s->finish == Finish::none) {
      try {
        pair.decoder->cycle({s.get()});
      } catch (const Cancelled&) {
        ++interruptions;
      }
    }
    CHECK(interruptions == (at <= calm.draft.num_passes ? 1 : interruptions));
    CHECK(s->tokens == expected->tokens);
  }
}

TEST(sequences_with_windows_share_passes) {
  for (const int size : windows) {
    Options options;
    std::vector<Tokens> expected;
    for (int i = 0; i < 4; ++i) {
      options.seed = static_cast<std::uint64_t>(i);
      Pair alone(size);
      const auto s = sequence_of(random_text(20 + 30 * i, options.seed), options);
      finish(*alone.decoder, *s);
      expected.push_back(s->tokens);
    }
    Pair pair(size, 4);
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (int i = 0; i < 4; ++i) {
      options.seed = static_cast<std::uint64_t>(i);
      options.slot = i;
      sequences.push_back(sequence_of(random_text(20 + 30 * i, options.seed), options));
      pair.decoder->prefill(*sequences.back());
    }
    for (;;) {
      std::vector<Sequence*> running;
      for (const auto& s : sequences) {
        if (s->finish == Finish::none) running.push_back(s.get());
      }
      if (running.empty()) break;
      pair.decoder->cycle(running);
    }
    for (std::size_t i = 0; i < 4; ++i) CHECK(sequences[i]->tokens == expected[i]);
  }
}

TEST_MAIN()
