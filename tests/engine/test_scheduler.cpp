// Scheduling of requests on toy models: each has the same output as alone, whatever happens to the others.

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "check.h"
#include "engine/scheduler.h"
#include "llama/model.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/toy_model.h"
#include "toy_constraint.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

constexpr int vocabulary_size = 16, context = 512;

// The toy's tokens are the first of these.
Vocabulary vocabulary() {
  static const Model model(std::string(MODELS) + "stdlib-draft-f16.gguf");
  return model.vocabulary();
}

Tokens prompt_of(int length, std::uint64_t seed) {
  Tokens tokens;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(length); ++i) {
    tokens.push_back(static_cast<Token>(toy::mix(seed * 1000 + i) % vocabulary_size));
  }
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Wish {
  Tokens prompt;
  int max_tokens;
  int num_draft_tokens = 3;
  std::uint64_t seed = 7;
  std::vector<std::string> stop = {};
};

// The output of a request.
struct Outcome {
  Tokens tokens;
  std::string text, error;
  std::optional<FinishReason> reason;
  bool is_over = false;
  bool operator==(const Outcome& other) const {
    return tokens == other.tokens && text == other.text && error == other.error && reason == other.reason &&
           is_over == other.is_over;
  }
};

struct Engine {
  explicit Engine(int slots, std::uint64_t target_seed = 1)
      : target(vocabulary_size, target_seed, context, context, slots),
        draft(vocabulary_size, 2, context, context, slots),
        proposer(draft, vocabulary_size),
        decoder(target, &proposer),
        scheduler(decoder, vocabulary(), slots) {}

  // Ids count from 0.
  std::shared_ptr<ScheduledRequest> add(const Wish& wish, std::unique_ptr<sampling::Constraint> constraint = nullptr) {
    Request request;
    request.max_tokens = wish.max_tokens;
    request.stop = wish.stop;
    const auto id = static_cast<std::int64_t>(texts.size());
    texts.push_back(std::make_shared<ScheduledRequest>(id, request, wish.prompt, wish.seed, wish.num_draft_tokens));
    texts.back()->constrain(std::move(constraint));
    outcomes.emplace_back();
    scheduler.add(texts.back());
    return texts.back();
  }

  // The id of the next event, -1 when all requests are finished.
  std::int64_t next() {
    const std::optional<Event> event = scheduler.next();
    if (!event) return -1;
    Outcome& outcome = outcomes.at(static_cast<std::size_t>(event->request->id()));
    CHECK(!outcome.is_over);
    if (event->piece) {
      outcome.tokens.push_back(event->piece->token);
      outcome.text += event->piece->text;
      outcome.reason = event->piece->finish_reason;
    }
    outcome.is_over = event->is_last();
    outcome.error = event->request->error_message();
    return event->request->id();
  }

  // Runs to the end; returns the ids of all events.
  std::vector<std::int64_t> run() {
    std::vector<std::int64_t> order;
    for (std::int64_t id = next(); id >= 0; id = next()) order.push_back(id);
    return order;
  }

  int num_active() const {
    return static_cast<int>(
        std::count_if(texts.begin(), texts.end(), [](const auto& text) { return text->has_slot(); }));
  }

  toy::Model target, draft;
  DraftModelProposer proposer;
  Decoder decoder;
  Scheduler scheduler;
  std::vector<std::shared_ptr<ScheduledRequest>> texts;  // by id
  std::vector<Outcome> outcomes;
};

Outcome alone(const Wish& wish) {
  Engine engine(1);
  engine.add(wish);
  engine.run();
  return engine.outcomes[0];
}

// Requests of different lengths, drafts and seeds.
std::vector<Wish> wishes_of(int count) {
  std::vector<Wish> wishes;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    wishes.push_back({prompt_of(3 + 5 * i % 11, seed), 6 + 7 * i % 23, i % 5, seed});
  }
  return wishes;
}

using Ids = std::vector<std::int64_t>;

// Sorts every `cycle` of events, after the first ones: the order of slots within a cycle is unspecified.
Ids in_turns(Ids order, std::ptrdiff_t first, std::ptrdiff_t cycle) {
  for (auto at = order.begin() + first; at < order.end(); at += std::min(cycle, order.end() - at)) {
    std::sort(at, at + std::min(cycle, order.end() - at));
  }
  return order;
}

}  // namespace

TEST(texts_beyond_the_slots_wait_for_their_turn) {
  const std::vector<Wish> wishes = wishes_of(9);
  Engine engine(3);
  for (const Wish& wish : wishes) engine.add(wish);
  Ids begun;  // in the order of their first event
  int most = 0;
  for (std::int64_t id = engine.next(); id >= 0; id = engine.next()) {
    if (std::find(begun.begin(), begun.end(), id) == begun.end()) begun.push_back(id);
    most = std::max(most, engine.num_active());
    for (std::size_t i = begun.size(); i < engine.texts.size(); ++i) CHECK(engine.outcomes[i].tokens.empty());
  }
  CHECK(most == 3);
  CHECK((begun == Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  int different = 0;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    CHECK(engine.outcomes[i] == alone(wishes[i]));
    Wish other = wishes[i];
    other.seed += 100;
    different += engine.outcomes[i] == alone(other) ? 0 : 1;
  }
  CHECK(different == 9);  // control: the comparison sees another seed
}

TEST(events_come_slot_by_slot_and_empty_texts_end_first) {
  Engine engine(3);
  for (const std::uint64_t seed : {1u, 2u, 3u}) engine.add({prompt_of(5, seed), 3, 0});
  engine.add({prompt_of(5, 4), 0});
  CHECK((in_turns(engine.run(), 1, 3) == Ids{3, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  CHECK(engine.outcomes[3].is_over && !engine.outcomes[3].reason && engine.outcomes[3].error.empty());
  CHECK(engine.outcomes[0].reason == FinishReason::length);

  // All tokens of a sequence in a cycle come together.
  Engine drafting(2, 2);  // the draft is the target: all four tokens of a cycle are kept
  for (const std::uint64_t seed : {1u, 2u}) drafting.add({prompt_of(5, seed), 8, 3});
  const Ids order = drafting.run();
  CHECK((in_turns(order, 0, 8) == Ids{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == order[i - i % 4]);
}

TEST(cancelled_texts_leave_the_others_alone) {
  const std::vector<Wish> wishes = wishes_of(6);
  Engine engine(2);
  for (const Wish& wish : wishes) engine.add(wish);
  engine.scheduler.cancel(3);  // waits
  while (engine.outcomes[1].tokens.size() < 4) CHECK(engine.next() >= 0);
  engine.scheduler.cancel(1);  // runs
  engine.scheduler.cancel(1);
  engine.scheduler.cancel(99);
  CHECK(engine.texts[1]->state() == ScheduledRequest::State::over && !engine.texts[1]->has_failed());
  // Tokens that were not delivered are also dropped from the cache.
  const Sequence& s = engine.texts[1]->sequence();
  CHECK(s.num_committed == static_cast<int>(wishes[1].prompt.size()) + 4);
  CHECK(engine.target.length(s.slot) == s.num_committed - 1);
  engine.run();
  CHECK(engine.outcomes[3].tokens.empty() && engine.outcomes[1].tokens.size() == 4);
  const Tokens whole = alone(wishes[1]).tokens;
  CHECK(std::equal(engine.outcomes[1].tokens.begin(), engine.outcomes[1].tokens.end(), whole.begin()));
  for (const std::size_t i : {0u, 2u, 4u, 5u}) CHECK(engine.outcomes[i] == alone(wishes[i]));

  for (const Wish& wish : wishes) engine.add(wish);
  CHECK(engine.next() >= 6);
  engine.scheduler.cancel_all();
  CHECK(engine.next() == -1 && engine.num_active() == 0);
}

TEST(a_text_that_fails_fails_alone) {
  const std::vector<Wish> wishes = wishes_of(5);
  const Tokens bad = {9, 9, 9, 9};
  Engine engine(3);
  // The target's logits are NaN after five more tokens of the bad prompt.
  const toy::Model healthy(vocabulary_size, 1);
  engine.target.table = [&](const Tokens& tokens) {
    std::vector<float> row = healthy.logits_after(tokens);
    if (tokens.size() >= bad.size() + 5 && std::equal(bad.begin(), bad.end(), tokens.begin())) {
      row[0] = std::numeric_limits<float>::quiet_NaN();
    }
    return row;
  };
  engine.add(wishes[0]);
  engine.add({bad, 40, 0});
  for (std::size_t i = 1; i < wishes.size(); ++i) engine.add(wishes[i]);
  engine.run();
  const Outcome& failed = engine.outcomes[1];
  CHECK(failed.is_over && !failed.reason && failed.tokens.size() == 5);
  CHECK(failed.error.find("the target model failed: logits contain NaN") == 0);
  CHECK(engine.texts[1]->has_failed() && engine.texts[1]->state() == ScheduledRequest::State::over);
  CHECK(engine.outcomes[0] == alone(wishes[0]));
  for (std::size_t i = 1; i < wishes.size(); ++i) CHECK(engine.outcomes[i + 1] == alone(wishes[i]));
}

// Constraints may fail in any way: for want of memory, or in code that is not ours.
TEST(a_text_whose_constraint_fails_fails_alone) {
  const std::vector<Wish> wishes = wishes_of(4);
  for (const int num_draft_tokens : {0, 3}) {
    Engine engine(2);
    engine.add(wishes[0]);
    auto* const constraint = new toy::Constraint(vocabulary_size, [&](const Tokens& output) {
      if (output.size() >= 6) throw std::bad_alloc();
      return 0xFFFFu;
    });
    engine.add({prompt_of(7, 5), 40, num_draft_tokens}, std::unique_ptr<specdec::sampling::Constraint>(constraint));
    for (std::size_t i = 1; i < wishes.size(); ++i) engine.add(wishes[i]);
    engine.run();
    CHECK(engine.outcomes[1].error == std::string("the constraint failed: ") + std::bad_alloc().what());
    CHECK(!engine.outcomes[1].tokens.empty() && engine.outcomes[1].tokens.size() <= 6);
    CHECK(engine.outcomes[0] == alone(wishes[0]));
    for (std::size_t i = 1; i < wishes.size(); ++i) CHECK(engine.outcomes[i + 1] == alone(wishes[i]));
  }
}

// Keeps the first text that a slot lost. Its calls fail as told.
class Store final : public PrefixStore {
 public:
  explicit Store(Engine& engine) : engine_(engine) {}

  int longest_prefix(const Text& prompt, int usable) override {
    if (fails_to_look) throw std::bad_alloc();
    return common_prefix(kept, prompt, usable);
  }
  bool restore(const Text&, int, int slot) override {
    ++num_restored;
    fill(engine_.target, slot, {8, 8, 8});  // another conversation's
    if (fails_after_target) throw std::runtime_error("a broken state");
    fill(engine_.target, slot, kept);
    fill(engine_.draft, slot, {8, 8});
    if (fails_after_draft) throw std::bad_alloc();
    fill(engine_.draft, slot, kept);
    return true;
  }
  void overwritten(int, const Text& text, int length) noexcept override {
    if (kept.empty()) kept.assign(text.tokens.begin(), text.tokens.begin() + length);
  }
  bool idle(int, const Text&, int) noexcept override { return true; }

  bool fails_to_look = false, fails_after_target = false, fails_after_draft = false;
  Tokens kept;
  int num_restored = 0;

 private:
  static void fill(toy::Model& model, int slot, const Tokens& tokens) {
    model.truncate(slot, 0);
    model.decode({{slot, tokens.data(), static_cast<int>(tokens.size()), 0}});
  }

  Engine& engine_;
};

TEST(a_restore_that_fails_leaves_nothing_of_another_conversation) {
  const Wish first{prompt_of(200, 1), 5}, between{prompt_of(150, 2), 5}, later{prompt_of(200, 1) + Tokens{1, 2}, 9};
  for (const int fault : {0, 1, 2, 3}) {
    Engine engine(1);
    Store store(engine);
    engine.scheduler.set_prefix_store(&store);
    for (const Wish& wish : {first, between}) {
      engine.add(wish);
      engine.run();
    }
    CHECK(store.kept.size() == 204);
    store.fails_after_target = fault == 1;
    store.fails_after_draft = fault == 2;
    store.fails_to_look = fault == 3;
    const auto text = engine.add(later);
    engine.add(between);
    engine.run();
    CHECK((store.num_restored > 0) == (fault != 3));
    CHECK(engine.outcomes[2] == alone(later) && engine.outcomes[3] == alone(between));
    CHECK(text->sequence().stats.prompt_cached_tokens == (fault == 0 ? 200 : 0));
    store.fails_after_target = store.fails_after_draft = store.fails_to_look = false;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const Wish wish{prompt_of(i % 2 == 0 ? 200 : 150, 1 + i % 2) + prompt_of(5, i), 4};
      engine.add(wish);
      engine.run();
      CHECK(engine.outcomes.back() == alone(wish));
    }
  }
}

TEST(a_copy_that_fails_leaves_nothing_of_another_conversation) {
  const Tokens shared = prompt_of(100, 1);
  const std::vector<Wish> wishes = {{shared + Tokens{1, 2, 3}, 60}, {prompt_of(90, 2), 8}, {shared + Tokens{4, 5}, 20}};
  for (const bool in_target : {true, false}) {
    Engine engine(2);
    engine.add(wishes[0]);
    engine.add(wishes[1]);
    while (!engine.outcomes[1].is_over) CHECK(engine.next() >= 0);
    bool fails = true;
    (in_target ? engine.target : engine.draft).after_copy = [&] {
      if (std::exchange(fails, false)) throw std::bad_alloc();
    };
    const auto copied = engine.add(wishes[2]);
    engine.run();
    CHECK(!fails && copied->sequence().stats.prompt_cached_tokens == 0);
    engine.add({wishes[1].prompt + engine.outcomes[1].tokens, 6});
    engine.run();
    CHECK(engine.outcomes[3] == alone({wishes[1].prompt + engine.outcomes[1].tokens, 6}));
    for (std::size_t i = 0; i < wishes.size(); ++i) CHECK(engine.outcomes[i] == alone(wishes[i]));
  }
}

TEST(a_pass_that_fails_ends_the_texts_in_it_and_one_that_is_cancelled_none) {
  const std::vector<Wish> wishes = wishes_of(4);
  Engine engine(2);
  for (const Wish& wish : wishes) engine.add(wish);
  CHECK(engine.next() == 0);
  bool cancel = true, fail = false;
  engine.target.before_pass = [&](int) {
    if (std::exchange(cancel, false)) throw Cancelled("not now");
    if (std::exchange(fail, false)) throw ModelError("no such layer");
  };
  for (bool cancelled = false; !cancelled;) {
    try {
      engine.next();
    } catch (const Cancelled&) {
      cancelled = true;
    }
  }
  fail = true;
  engine.run();
  for (const std::size_t i : {0u, 1u}) {
    const Tokens whole = alone(wishes[i]).tokens;
    const Outcome& outcome = engine.outcomes[i];
    CHECK(outcome.error == "no such layer" && outcome.is_over && outcome.tokens.size() < whole.size());
    CHECK(std::equal(outcome.tokens.begin(), outcome.tokens.end(), whole.begin()));
  }
  for (const std::size_t i : {2u, 3u}) CHECK(engine.outcomes[i] == alone(wishes[i]));
}

TEST(any_exception_reaches_every_text_of_its_pass) {
  const std::vector<Wish> wishes = wishes_of(4);
  const auto messages_of = [&](auto exception) {
    Engine engine(2);
    for (const Wish& wish : wishes) engine.add(wish);
    CHECK(engine.next() == 0);
    bool fail = true;
    engine.target.before_pass = [&](int) {
      if (std::exchange(fail, false)) throw exception;
    };
    engine.run();
    for (const std::size_t i : {2u, 3u}) CHECK(engine.outcomes[i] == alone(wishes[i]));
    for (const std::size_t i : {0u, 1u}) CHECK(engine.outcomes[i].is_over && engine.texts[i]->has_failed());
    CHECK(engine.outcomes[0].error == engine.outcomes[1].error);
    return engine.outcomes[0].error;
  };
  CHECK(messages_of(std::runtime_error("no such layer")) == "no such layer");
  CHECK(messages_of(std::bad_alloc()) == std::bad_alloc().what());
  CHECK(messages_of(7) == "an unknown C++ exception");
}

TEST(a_prefix_that_another_text_has_is_copied) {
  const Tokens shared = prompt_of(100, 1);
  const std::vector<Wish> wishes = {
      {shared + Tokens{1, 2, 3}, 60},
      {shared + Tokens{4, 5}, 20},
      {prompt_of(20, 1) + Tokens{6, 6}, 20},
      {prompt_of(50, 2), 20},
  };
  Engine engine(4);
  for (const Wish& wish : wishes) engine.add(wish);
  engine.run();
  const auto cached = [&](std::size_t i) { return engine.texts[i]->sequence().stats.prompt_cached_tokens; };
  CHECK(cached(0) == 0 && cached(1) == 100);
  CHECK(cached(2) == 0);  // reading 20 tokens is faster than copying a slot
  CHECK(cached(3) == 0);
  for (std::size_t i = 0; i < wishes.size(); ++i) CHECK(engine.outcomes[i] == alone(wishes[i]));

  // A finished request leaves its tokens in the cache, and a request that continues them takes its slot.
  Engine one(1);
  one.add(wishes[0]);
  one.run();
  one.add({wishes[0].prompt + one.outcomes[0].tokens, 9});
  one.run();
  CHECK(one.texts[1]->sequence().stats.prompt_cached_tokens == 103 + 60 - 1);
  CHECK(one.outcomes[1] == alone({wishes[0].prompt + one.outcomes[0].tokens, 9}));
}

TEST(conversations_keep_their_prefix) {
  const auto cached_of = [](Engine& engine, const Wish& wish) {
    const auto text = engine.add(wish);
    engine.run();
    CHECK(engine.outcomes.back() == alone(wish));
    return text->sequence().stats.prompt_cached_tokens;
  };
  const auto next_turn = [](const Wish& wish, const Engine& engine, std::uint64_t seed) {
    return Wish{wish.prompt + engine.outcomes.back().tokens + prompt_of(9, seed), wish.max_tokens};
  };
  const Tokens shared = prompt_of(3, 9);  // a chat template's
  const Wish side{shared + prompt_of(20, 3), 5};
  Engine engine(4);
  Wish a{shared + prompt_of(200, 1), 12};
  CHECK(cached_of(engine, a) == 0);
  const auto kept = static_cast<std::int64_t>(a.prompt.size() + 12 - 1);
  a = next_turn(a, engine, 4);
  CHECK(cached_of(engine, side) == 0);
  CHECK(cached_of(engine, a) == kept);

  // Two that take turns.
  Wish b{shared + prompt_of(150, 2), 12};
  cached_of(engine, b);
  Wish next_b = next_turn(b, engine, 5);
  for (int turn = 0; turn < 4; ++turn) {
    CHECK(cached_of(engine, a) >= static_cast<std::int64_t>(a.prompt.size()) - 22);
    a = next_turn(a, engine, 6);
    CHECK(cached_of(engine, next_b) >= static_cast<std::int64_t>(next_b.prompt.size()) - 22);
    next_b = next_turn(next_b, engine, 7);
  }
}

TEST(closing_a_gap_keeps_what_an_idle_slot_caches) {
  const std::vector<Wish> wishes = {{prompt_of(5, 1), 30}, {prompt_of(200, 2), 4}, {prompt_of(7, 3), 60}};
  Engine engine(4);
  for (const Wish& wish : wishes) engine.add(wish);
  engine.run();
  const auto slot = [&](std::size_t i) { return engine.texts[i]->sequence().slot; };
  CHECK(slot(0) == 0 && slot(2) == 1 && slot(1) == 3);
  CHECK(engine.scheduler.is_cached(*engine.texts[1]));
  engine.add({wishes[1].prompt + engine.outcomes[1].tokens, 6});
  engine.run();
  CHECK(engine.texts[3]->sequence().stats.prompt_cached_tokens == 200 + 4 - 1);
  for (std::size_t i = 0; i < wishes.size(); ++i) CHECK(engine.outcomes[i] == alone(wishes[i]));
}

// Text that may begin a stop string waits for what follows; at the end it belongs to the output.
TEST(text_held_back_for_a_stop_string_comes_with_the_last_piece) {
  for (const int max_tokens : {1, 5, 12}) {
    const Outcome whole = alone({prompt_of(5, 1), max_tokens});
    CHECK(!whole.text.empty());
    const std::string tail = whole.text.substr(whole.text.size() - 1);
    const Outcome held = alone({prompt_of(5, 1), max_tokens, 3, 7, {tail + " is not what follows"}});
    CHECK(held == whole && held.reason == FinishReason::length);
  }
}

// Which conversation is overwritten depends on when each was used last, also after one has moved to another place.
TEST(a_conversation_that_was_moved_keeps_its_age) {
  Engine engine(5);
  constexpr int length = 40;  // of every conversation in the end: none is cheaper than another
  const auto wish = [](Token first, int max_tokens) {
    return Wish{Tokens{first} + prompt_of(length - max_tokens, static_cast<std::uint64_t>(first)), max_tokens, 0};
  };
  for (const int max_tokens : {5, 6, 7, 8, 3})
    engine.add({prompt_of(9, static_cast<std::uint64_t>(max_tokens)), max_tokens, 0});
  engine.add(wish(0, 2));
  engine.run();
  // Only the oldest conversation is left, at place 4.
  CHECK(engine.texts[5]->sequence().slot == 4);
  for (int slot = 0; slot < 4; ++slot) engine.scheduler.erase(slot);
  const auto first = engine.add(wish(1, 30)), moved = engine.add(wish(2, 3)), last = engine.add(wish(3, 35));
  engine.run();
  CHECK(first->sequence().slot == 0 && last->sequence().slot == 1 && moved->sequence().slot == 3);
  for (const Token other : {4, 5}) {  // an empty slot, then the oldest conversation's
    engine.add(wish(other, 2));
    engine.run();
  }
  CHECK(!engine.scheduler.is_cached(*engine.texts[5]));
  for (const auto& kept : {first, moved, last}) CHECK(engine.scheduler.is_cached(*kept));
}

TEST(gaps_are_closed_once_none_waits) {
  const std::vector<Wish> wishes = {
      {prompt_of(5, 1), 4}, {prompt_of(6, 2), 40}, {prompt_of(7, 3), 4}, {prompt_of(8, 4), 60}};
  Engine engine(4);
  for (const Wish& wish : wishes) engine.add(wish);
  const auto slot = [&](std::size_t i) { return engine.texts[i]->sequence().slot; };
  CHECK(engine.next() == 0);
  for (std::size_t i = 0; i < 4; ++i) CHECK(slot(i) == static_cast<int>(i));
  while (!engine.outcomes[0].is_over || !engine.outcomes[2].is_over) engine.next();
  for (int i = 0; i < 8; ++i) engine.next();
  CHECK(slot(1) == 1 && slot(3) == 2);
  engine.run();
  for (std::size_t i = 0; i < wishes.size(); ++i) CHECK(engine.outcomes[i] == alone(wishes[i]));
}

TEST(a_long_prompt_is_read_between_the_cycles_of_others) {
  const Wish first{prompt_of(5, 1), 60, 0}, second{prompt_of(400, 2), 10};
  Engine engine(2);
  engine.add(first);
  CHECK(engine.next() == 0);
  engine.add(second);
  const Ids order = engine.run();
  // 399 tokens, 128 between two cycles: three tokens of the other text come first.
  CHECK(std::find(order.begin(), order.end(), 1) - order.begin() == 4);
  CHECK(engine.target.largest_pass == 128);
  CHECK(engine.outcomes[0] == alone(first) && engine.outcomes[1] == alone(second));
}

TEST(a_seed_given_again_decides_by_other_numbers_where_lengths_were_learnt_from_the_first_text) {
  const auto number_of = [](std::int64_t id, std::uint64_t seed, int num_draft_tokens, Verification verification) {
    Request request;
    request.verification = verification;
    const ScheduledRequest text(id, request, prompt_of(5, 1), seed, num_draft_tokens);
    return text.sequence().uniforms->uniform(5, 0, sampling::Purpose::accept);
  };
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    const double first = number_of(0, 7, auto_draft_tokens, verification);
    CHECK((number_of(1, 7, auto_draft_tokens, verification) == first) == (verification == Verification::invariant));
    CHECK(number_of(0, 8, auto_draft_tokens, verification) != first);
    CHECK(number_of(0, 7, 4, verification) == first &&
          number_of(1, 7, 4, verification) == first);  // a fresh one repeats it
  }
}

TEST(a_step_reads_as_much_of_a_prompt_as_it_may) {
  Engine engine(1);
  const auto request = engine.add({prompt_of(300, 1), 5});
  CHECK(request->state() == ScheduledRequest::State::waiting && engine.scheduler.reading() == nullptr);
  std::vector<int> read;
  while (request->state() != ScheduledRequest::State::running) {
    CHECK(engine.scheduler.step(130));
    read.push_back(engine.scheduler.num_cached(*request));
    CHECK((engine.scheduler.reading() == request.get()) == (read.back() < 299));
  }
  CHECK(read.size() == 3 && read[0] == 130 && read[1] == 260 && read[2] >= 299);
  engine.run();
  CHECK(request->state() == ScheduledRequest::State::over && engine.scheduler.is_idle());
  CHECK_THROWS(request->begin_reading(0, 0), std::logic_error, "a request must wait, then read its prompt, then run");
}

TEST_MAIN()
