// Requests of many threads on toy models: each has the same output as alone, whatever happens to the others.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "engine/executor.h"
#include "engine/toy_engine.h"

namespace {

using namespace specdec;
using namespace std::chrono_literals;
using Tokens = std::vector<Token>;

constexpr int context = 2048, batch = 64;

struct Wish {
  Tokens prompt;
  int max_tokens;
  std::uint64_t seed;
};

Wish wish_of(int i) {
  const auto seed = static_cast<std::uint64_t>(i);
  return {toy::prompt_of(3 + 5 * i % 11, seed), 6 + 7 * i % 23, seed};
}

std::shared_ptr<ScheduledRequest> request_of(const Wish& wish, std::int64_t id) {
  Request request;
  request.max_tokens = wish.max_tokens;
  return std::make_shared<ScheduledRequest>(id, request, wish.prompt, wish.seed, 3);
}

// The draft model's; throws once when it is told to.
class FailingProposer final : public Proposer {
 public:
  explicit FailingProposer(LanguageModel& draft) : inner_(draft, toy::vocabulary_size) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override { inner_.propose(requests, stats); }
  int room(int num_committed) const override { return inner_.room(num_committed); }
  void prefill(const Sequence& sequence, int length) override { inner_.prefill(sequence, length); }
  void truncate(int slot, int length) override { inner_.truncate(slot, length); }
  void copy(int from, int to) override { inner_.copy(from, to); }
  void remember(const Token*, int) override {
    if (fails.exchange(false)) throw std::bad_alloc();
  }
  std::atomic<bool> fails{false};

 private:
  DraftModelProposer inner_;
};

struct Engine {
  explicit Engine(int slots, const Executor::Options& options = {})
      : target(toy::vocabulary_size, 1, context, batch, slots),
        draft(toy::vocabulary_size, 2, context, batch, slots),
        proposer(draft),
        decoder(target, &proposer),
        scheduler(decoder, toy::vocabulary(), slots) {
    target.before_pass = [this](int) {
      ++passes;
      if (in_pass) in_pass();
      if (cancelled && cancelled()) throw Cancelled("interrupted");
    };
    executor.emplace(scheduler, [this](CancelCheck check) { cancelled = std::move(check); }, options);
  }

  std::shared_ptr<RequestHandle> submit(const Wish& wish) { return executor->submit(request_of(wish, next_id++)); }

  toy::Model target, draft;
  FailingProposer proposer;
  Decoder decoder;
  Scheduler scheduler;
  CancelCheck cancelled;
  std::function<void()> in_pass;  // set while no request runs
  std::atomic<std::int64_t> next_id{0};
  std::atomic<int> passes{0};
  std::optional<Executor> executor;
};

// Waits for the end.
Tokens tokens_of(const RequestHandle& handle) {
  Tokens tokens;
  for (;;) {
    while (!handle.wait_for(tokens.size(), 10ms)) {
    }
    const std::optional<Piece> piece = handle.piece(tokens.size());
    if (!piece) return tokens;
    tokens.push_back(piece->token);
  }
}

std::string error_of(const RequestHandle& handle) {
  try {
    if (handle.error()) std::rethrow_exception(handle.error());
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

Tokens alone(const Wish& wish) {
  Engine engine(1);
  return tokens_of(*engine.submit(wish));
}

void wait_for_passes(const Engine& engine, int count) {
  while (engine.passes < count) std::this_thread::yield();
}

// A gate that a pass waits at, so that requests are surely running while a test acts.
struct Gate {
  std::atomic<bool> is_open{false};
  void wait() const {
    while (!is_open) std::this_thread::sleep_for(1ms);
  }
};

TEST(outputs_are_those_of_each_request_alone) {
  constexpr int num_threads = 4, each = 12;
  std::vector<Tokens> expected;
  for (int i = 0; i < num_threads * each; ++i) expected.push_back(alone(wish_of(i)));
  Engine engine(3);
  std::atomic<int> num_equal{0};
  std::vector<std::thread> users;
  for (int user = 0; user < num_threads; ++user) {
    users.emplace_back([&, user] {
      for (int i = user; i < num_threads * each; i += num_threads) {
        const auto handle = engine.submit(wish_of(i));
        const Tokens tokens = tokens_of(*handle);
        if (tokens == expected[static_cast<std::size_t>(i)] && handle->is_done() && error_of(*handle).empty() &&
            handle->stats().tokens == static_cast<std::int64_t>(tokens.size())) {
          ++num_equal;
        }
      }
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(num_equal == num_threads * each);
  CHECK(engine.executor->num_unfinished() == 0);
}

TEST(cancelled_requests_end_and_the_others_do_not_notice) {
  constexpr int count = 40;
  Engine engine(3);
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int i = 0; i < count; ++i) handles.push_back(engine.submit(wish_of(i)));
  std::thread canceller([&] {
    for (int i = 1; i < count; i += 2) {
      handles[static_cast<std::size_t>(i)]->cancel();
      handles[static_cast<std::size_t>(i)]->cancel();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < count; ++i) {
    const RequestHandle& handle = *handles[static_cast<std::size_t>(i)];
    const Tokens tokens = tokens_of(handle), expected = alone(wish_of(i));
    if (i % 2 == 0 || error_of(handle).empty()) {
      CHECK(tokens == expected);
    } else {
      CHECK(error_of(handle) == "the request was cancelled");
      CHECK(tokens.size() <= expected.size() && std::equal(tokens.begin(), tokens.end(), expected.begin()));
      CHECK(handle.stats().tokens == static_cast<std::int64_t>(tokens.size()));
    }
  }
  canceller.join();
  CHECK(tokens_of(*engine.submit(wish_of(5))) == alone(wish_of(5)));
}

TEST(a_cancelled_request_stops_reading_its_prompt) {
  Engine engine(1);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  const auto reading = engine.submit({toy::prompt_of(context - 10, 1), 5, 1});
  const auto waiting = engine.submit(wish_of(2));
  wait_for_passes(engine, 1);
  reading->cancel();
  gate.is_open = true;
  CHECK(tokens_of(*reading).empty());
  CHECK(error_of(*reading) == "the request was cancelled");
  CHECK(tokens_of(*waiting) == alone(wish_of(2)));
  CHECK(engine.passes < 20 + wish_of(2).max_tokens);  // of the 32 passes for the prompt, one
}

// Nobody else's work is lost by that: one that waits has none.
TEST(a_pass_of_cancelled_requests_alone_is_interrupted) {
  Engine engine(2);
  Gate gate;
  std::atomic<int> num_passes{0}, num_interrupted{0};
  engine.in_pass = [&] {
    if (++num_passes < 10) return;
    gate.wait();
    if (engine.cancelled()) ++num_interrupted;
  };
  const Wish long_wish{toy::prompt_of(5, 1), 1000, 1};
  const auto first = engine.submit(long_wish), second = engine.submit(long_wish), waiting = engine.submit(wish_of(2));
  wait_for_passes(engine, 10);
  const std::size_t before = static_cast<std::size_t>(first->stats().tokens);
  first->cancel();
  second->cancel();
  gate.is_open = true;
  CHECK(tokens_of(*first).size() <= before + 1 && error_of(*first) == "the request was cancelled");
  (void)tokens_of(*second);
  CHECK(error_of(*second) == "the request was cancelled");
  CHECK(num_interrupted > 0);
  CHECK(tokens_of(*waiting) == alone(wish_of(2)));
  CHECK(engine.passes < 20 + wish_of(2).max_tokens);
}

TEST(a_dropped_handle_cancels_its_request) {
  Engine engine(1);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  engine.submit({toy::prompt_of(context - 10, 1), 5, 1}).reset();
  const auto next = engine.submit(wish_of(2));
  gate.is_open = true;
  CHECK(tokens_of(*next) == alone(wish_of(2)));
  CHECK(engine.passes < 20 + wish_of(2).max_tokens);
}

TEST(commands_run_between_passes_and_their_errors_are_the_callers) {
  Engine engine(2);
  std::atomic<bool> in_pass{false};
  engine.target.before_pass = [&](int) { in_pass = true; };
  engine.in_pass = nullptr;
  const auto handle = engine.submit({toy::prompt_of(9, 1), 300, 1});
  std::thread::id worker;
  for (int i = 0; i < 20; ++i) engine.executor->run([&] { worker = std::this_thread::get_id(); });
  CHECK(worker != std::thread::id() && worker != std::this_thread::get_id());
  CHECK_THROWS(engine.executor->run([] { throw ModelError("no such thing"); }), ModelError, "no such thing");
  CHECK(tokens_of(*handle) == alone({toy::prompt_of(9, 1), 300, 1}));
  engine.executor->close();
  CHECK_THROWS(engine.executor->run([] {}), Cancelled, "closed");
}

TEST(a_command_is_cancelled_by_its_own_check) {
  Engine engine(1);
  std::atomic<bool> stop{false};
  const auto work = [&] {
    for (;;) {
      if (engine.cancelled()) throw Cancelled("stopped");
      std::this_thread::yield();
    }
  };
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    stop = true;
  });
  CHECK_THROWS(engine.executor->run(work, [&] { return stop.load(); }), Cancelled, "stopped");
  stopper.join();
  CHECK(tokens_of(*engine.submit(wish_of(1))) == alone(wish_of(1)));
}

TEST(a_request_that_only_reads_its_prompt_leaves_it_in_the_cache) {
  Engine engine(1);
  const Tokens prompt = toy::prompt_of(300, 3);
  Request request;
  request.max_tokens = 0;
  request.read_prompt = true;
  const auto reading =
      engine.executor->submit(std::make_shared<ScheduledRequest>(engine.next_id++, request, prompt, 1, 3));
  CHECK(tokens_of(*reading).empty() && !reading->error());
  CHECK(reading->prompt_progress().read == 300 && reading->prompt_progress().all == 300);
  const auto handle = engine.submit({prompt, 5, 1});
  CHECK(tokens_of(*handle) == alone({prompt, 5, 1}));
  CHECK(handle->stats().prompt_cached_tokens == 299);
}

TEST(the_queue_is_bounded) {
  Executor::Options options;
  options.max_unfinished = 2;
  Engine engine(1, options);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  const auto first = engine.submit(wish_of(1)), second = engine.submit(wish_of(2));
  CHECK_THROWS(engine.submit(wish_of(3)), QueueFull, "2 requests");
  gate.is_open = true;
  CHECK(tokens_of(*first) == alone(wish_of(1)));
  CHECK(tokens_of(*engine.submit(wish_of(3))) == alone(wish_of(3)));
}

TEST(closing_ends_all_requests_and_joins) {
  Engine engine(2);
  engine.in_pass = [&] {
    while (!engine.cancelled()) std::this_thread::sleep_for(1ms);  // none ends before
  };
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int i = 0; i < 5; ++i) handles.push_back(engine.submit({toy::prompt_of(1500, 1), 400, 1}));
  wait_for_passes(engine, 1);
  std::atomic<int> num_ended{0};
  std::vector<std::thread> readers;
  for (const auto& handle : handles) {
    readers.emplace_back([&num_ended, handle] {
      tokens_of(*handle);
      if (error_of(*handle) == "the Generator was closed") ++num_ended;
    });
  }
  engine.executor->close();
  for (std::thread& reader : readers) reader.join();
  CHECK(num_ended == 5);
  CHECK_THROWS(engine.submit(wish_of(1)), Cancelled, "closed");
  handles[0]->cancel();  // harmless
  engine.executor->close();
}

TEST(an_output_that_cannot_be_remembered_is_complete_and_the_others_go_on) {
  Engine engine(2);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  const Wish short_wish{toy::prompt_of(5, 1), 10, 1}, long_wish{toy::prompt_of(7, 2), 300, 2};
  const auto first = engine.submit(short_wish), second = engine.submit(long_wish);
  engine.proposer.fails = true;  // when the first has ended
  gate.is_open = true;
  CHECK(tokens_of(*first) == alone(short_wish) && tokens_of(*second) == alone(long_wish));
  CHECK(error_of(*first).empty() && error_of(*second).empty() && !engine.proposer.fails);
}

// The worker's ends of commands and submissions, without a worker.
TEST(whoever_waits_for_a_command_is_released_whatever_becomes_of_it) {
  ExecutorQueue queue(8);
  const auto outcome_of = [&](const std::function<void(OwnedCommand)>& obey) {
    std::string outcome = "?";
    std::thread waiting([&] {
      try {
        queue.run([&] { throw ModelError("it was run"); }, {}, false);
        outcome = "done";
      } catch (const std::exception& error) {
        outcome = error.what();
      }
    });
    ExecutorQueue::Taken taken;
    while (taken.commands.empty()) queue.take(1s, taken);
    obey(std::move(taken.commands.front()));
    waiting.join();
    return outcome;
  };
  CHECK(outcome_of([](OwnedCommand command) { command.run(); }) == "it was run");
  CHECK(outcome_of([](OwnedCommand command) { command.fail(nullptr); }) == "done");
  CHECK(outcome_of([](const OwnedCommand&) {}) == "the thread that runs the models failed; try again");
  CHECK(outcome_of([&](OwnedCommand command) {
          std::deque<OwnedCommand> kept;
          kept.push_back(std::move(command));
        }) == "the thread that runs the models failed; try again");
}

TEST(a_submission_that_nobody_takes_ends) {
  const auto queue = std::make_shared<ExecutorQueue>(8);
  const auto handle = std::make_shared<RequestHandle>(request_of(wish_of(1), 1), queue);
  queue->submit(handle);
  CHECK(queue->num_unfinished() == 1 && queue->first_submitted() == handle);
  {
    ExecutorQueue::Taken taken;
    queue->take(1s, taken);
    CHECK(taken.submitted.size() == 1 && !handle->is_done() && !queue->first_submitted());
  }
  CHECK(handle->is_done() && queue->num_unfinished() == 0);
  CHECK(error_of(*handle) == "the thread that runs the models failed; try again");
}

TEST(a_check_that_throws_cancels_its_command) {
  Engine engine(1);
  const auto work = [&] {
    while (!engine.cancelled()) std::this_thread::yield();
    throw Cancelled("stopped");
  };
  const CancelCheck check = []() -> bool { throw std::runtime_error("a check that fails"); };
  CHECK_THROWS(engine.executor->run(work, check), Cancelled, "stopped");
}

TEST(a_listener_that_throws_changes_nothing) {
  Engine engine(1);
  const auto handle = engine.submit(wish_of(3));
  handle->set_listener([] { throw std::runtime_error("a listener that fails"); });
  CHECK(tokens_of(*handle) == alone(wish_of(3)) && error_of(*handle).empty());
}

// Passes that were interrupted are counted.
TEST(a_cancellation_does_not_interrupt_the_pass_of_others) {
  // What is cancelled: a prompt that is read between the cycles, or one of two texts.
  for (const int at : {10, 11, 12, -12}) {
    Engine engine(2);
    Gate gate;
    std::atomic<int> num_interrupted{0}, num_passes{0};
    engine.in_pass = [&] {
      if (++num_passes >= std::abs(at)) gate.wait();
      if (engine.cancelled()) ++num_interrupted;
    };
    if (at == 11) engine.executor->cancel_all();  // interrupts no later pass
    const Wish long_wish{toy::prompt_of(5, 1), 200, 1};
    const auto kept = engine.submit(long_wish);
    const auto leaving = engine.submit({toy::prompt_of(at > 0 ? context - 300 : 6, 2), 200, 2});
    wait_for_passes(engine, std::abs(at));
    leaving->cancel();
    gate.is_open = true;
    CHECK(tokens_of(*kept) == alone(long_wish) && error_of(*kept).empty());
    (void)tokens_of(*leaving);
    CHECK(error_of(*leaving) == "the request was cancelled");
    CHECK(num_interrupted == 0);
  }
}

// ---- Work that is broken off

// A prompt of which some passes are read when it is cancelled; `next` is submitted before.
struct BrokenOff {
  explicit BrokenOff(const std::vector<Wish>& next = {}) : engine(1) {
    engine.in_pass = [this] {
      const int pass = ++num_passes;
      if (pass == 3) first_gate.wait();
      if (pass == 4) second_gate.wait();
    };
    cancelled = engine.submit({prompt, 5, 1});
    wait_for_passes(engine, 3);
    for (const Wish& wish : next) waiting.push_back(engine.submit(wish));
    cancelled->cancel();
    first_gate.is_open = true;
  }
  ~BrokenOff() { second_gate.is_open = true; }

  std::int64_t cached_of(const Wish& wish) {
    const auto handle = engine.submit(wish);
    CHECK(tokens_of(*handle) == alone(wish));
    return handle->stats().prompt_cached_tokens;
  }

  const Tokens prompt = toy::prompt_of(1500, 1);
  Engine engine;
  Gate first_gate, second_gate;
  std::atomic<int> num_passes{0};
  std::shared_ptr<RequestHandle> cancelled;
  std::vector<std::shared_ptr<RequestHandle>> waiting;
};

Tokens beginning_with(const Tokens& tokens, int length, std::uint64_t seed) {
  Tokens begun(tokens.begin(), tokens.begin() + length);
  begun.push_back((tokens[static_cast<std::size_t>(length)] + 1) % toy::vocabulary_size);
  const Tokens end = toy::prompt_of(20, seed);
  begun.insert(begun.end(), end.begin(), end.end());
  return begun;
}

TEST(what_a_cancelled_request_has_begun_to_read_is_read_to_the_end_of_the_pass_and_kept) {
  BrokenOff broken;
  CHECK(tokens_of(*broken.cancelled).empty());  // has ended while the pass goes on
  CHECK(error_of(*broken.cancelled) == "the request was cancelled");
  CHECK(broken.engine.executor->num_unfinished() == 0);
  broken.second_gate.is_open = true;
  CHECK(broken.cached_of({beginning_with(broken.prompt, 900, 3), 7, 2}) == 512);
}

TEST(a_pass_goes_on_for_the_next_request_if_that_needs_half_of_it) {
  for (const int shared : {200, 255, 256, 400}) {
    const Wish wish{beginning_with(toy::prompt_of(1500, 1), shared, 3), 7, 2};
    BrokenOff broken({wish});
    broken.second_gate.is_open = true;
    CHECK(tokens_of(*broken.waiting[0]) == alone(wish));
    const std::int64_t cached = broken.waiting[0]->stats().prompt_cached_tokens;
    CHECK(cached == (shared >= 256 ? shared : 128));  // two passes were complete
  }
}

TEST(a_request_that_left_as_well_does_not_count) {
  const Tokens other = toy::prompt_of(60, 9);
  BrokenOff broken({{other, 7, 2}, {beginning_with(toy::prompt_of(1500, 1), 600, 3), 7, 2}});
  broken.waiting[0]->cancel();
  CHECK(tokens_of(*broken.cancelled).empty());
  broken.second_gate.is_open = true;
  CHECK(tokens_of(*broken.waiting[1]).size() == 7);
  CHECK(broken.waiting[1]->stats().prompt_cached_tokens >= 128);
}

TEST(closing_interrupts_what_nobody_waits_for) {
  BrokenOff broken;
  CHECK(tokens_of(*broken.cancelled).empty());
  std::thread closing([&] { broken.engine.executor->close(); });
  while (!broken.engine.executor->is_closed()) std::this_thread::yield();
  broken.second_gate.is_open = true;
  closing.join();
  CHECK(broken.num_passes == 4);
}

TEST(an_error_of_a_pass_ends_the_requests_in_it) {
  Engine engine(2);
  std::atomic<bool> fails{true};
  engine.in_pass = [&] {
    if (fails.exchange(false)) throw ModelError("a broken pass");
  };
  const auto broken = engine.submit(wish_of(1));
  CHECK(tokens_of(*broken).empty());
  CHECK(error_of(*broken) == "a broken pass");
  CHECK(tokens_of(*engine.submit(wish_of(1))) == alone(wish_of(1)));
}

TEST(listeners_hear_of_every_piece_and_of_the_end) {
  Engine engine(1);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  std::atomic<int> num_heard{0};
  const auto handle = engine.submit(wish_of(6));
  handle->set_listener([&] { ++num_heard; });
  gate.is_open = true;
  const auto count = static_cast<int>(tokens_of(*handle).size());
  engine.executor->close();
  CHECK(num_heard == count);  // the last piece is the end
  std::atomic<int> late{0};
  handle->set_listener([&] { ++late; });
  CHECK(late == 1);
}

TEST(a_request_of_no_tokens_ends_without_a_piece) {
  Engine engine(1);
  const auto handle = engine.submit({toy::prompt_of(3, 1), 0, 1});
  CHECK(tokens_of(*handle).empty() && handle->is_done() && !handle->error());
}

TEST(a_handle_says_at_the_end_what_became_of_the_drafts) {
  Executor::Options options;
  options.drafting = [](const ScheduledRequest& text) { return "drafts of " + std::to_string(text.id()); };
  Engine engine(1, options);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  const auto handle = engine.submit(wish_of(1)), cancelled = engine.submit(wish_of(2));
  CHECK(handle->drafting().empty());
  cancelled->cancel();
  gate.is_open = true;
  (void)tokens_of(*handle);
  (void)tokens_of(*cancelled);
  CHECK(handle->drafting() == "drafts of 0" && cancelled->drafting() == "drafts of 1");
  CHECK(Engine(1).submit(wish_of(1))->drafting().empty());
}

// The tokens of the request alone, from the rows of the model.
Score score_of(const Tokens& tokens, int num_top_logprobs) {
  const toy::Model model(toy::vocabulary_size, 1);
  Score score;
  score.tokens = tokens;
  score.num_top_logprobs = num_top_logprobs;
  for (auto end = tokens.begin() + 1; end != tokens.end(); ++end) {
    score.add(model.logits_after({tokens.begin(), end}).data(), toy::vocabulary_size);
  }
  return score;
}

bool are_equal(const Score& a, const Score& b) {
  const auto same = [](const auto& x, const auto& y) { return x.token == y.token && x.logprob == y.logprob; };
  return a.tokens == b.tokens && a.logprobs == b.logprobs && a.most_likely == b.most_likely && a.is_complete() &&
         std::equal(a.top_logprobs.begin(), a.top_logprobs.end(), b.top_logprobs.begin(), b.top_logprobs.end(), same);
}

std::shared_ptr<RequestHandle> submit_score(Engine& engine, const Tokens& prompt, int max_tokens,
                                            int num_top_logprobs) {
  Request request;
  request.score_prompt = true;
  request.max_tokens = max_tokens;
  request.top_logprobs = num_top_logprobs;
  return engine.executor->submit(std::make_shared<ScheduledRequest>(engine.next_id++, request, prompt, 1, 3));
}

TEST(prompts_are_scored_beside_other_requests) {
  Engine engine(3);
  std::vector<std::shared_ptr<RequestHandle>> others, scored;
  std::vector<Tokens> prompts;
  for (int i = 0; i < 24; ++i) {
    others.push_back(engine.submit(wish_of(i)));
    prompts.push_back(i % 2 == 0 ? toy::prompt_of(1 + 17 * i, 7)
                                 : wish_of(i).prompt);  // the first is one token; prefixes in common
    scored.push_back(submit_score(engine, prompts.back(), i % 3 == 0 ? 5 : 0, i % 4));
    if (i % 5 == 0) submit_score(engine, toy::prompt_of(context, 9), 0, 0)->cancel();
  }
  for (int i = 0; i < 24; ++i) {
    const auto at = static_cast<std::size_t>(i);
    CHECK(tokens_of(*others[at]) == alone(wish_of(i)));
    CHECK(!others[at]->prompt_score());
    const Tokens tokens = tokens_of(*scored[at]);
    CHECK(tokens == (i % 3 == 0 ? alone({prompts[at], 5, 1}) : Tokens()));
    CHECK(scored[at]->prompt_score() && are_equal(*scored[at]->prompt_score(), score_of(prompts[at], i % 4)));
  }
}

// A score takes over what an earlier one knows of their common beginning, at any place, and reads the rest.
TEST(scores_reuse_earlier_ones) {
  for (const bool goes_back : {true, false}) {
    Engine engine(2);
    engine.target.goes_back = goes_back;
    std::int64_t num_cached = 0;
    for (int i = 0; i < 80; ++i) {
      Tokens prompt = toy::prompt_of(1 + 37 * i % 150, 7);
      for (int j = 0; j < i % 3; ++j) prompt.push_back(static_cast<Token>((i + j) % toy::vocabulary_size));
      Request request;
      request.score_prompt = true;
      request.score_from = i % 2 == 0 ? 0 : 13 * i % static_cast<int>(prompt.size());
      request.max_tokens = 0;
      request.top_logprobs = i % 4;
      const auto handle =
          engine.executor->submit(std::make_shared<ScheduledRequest>(engine.next_id++, request, prompt, 1, 3));
      CHECK(tokens_of(*handle).empty() && handle->prompt_score());
      const Score& score = *handle->prompt_score();
      Score whole = score_of(prompt, i % 4);
      CHECK(score.first == std::max(1, request.score_from) && score.is_complete());
      const auto skipped = static_cast<std::ptrdiff_t>(score.first - 1);
      whole.first = score.first;
      whole.logprobs.erase(whole.logprobs.begin(), whole.logprobs.begin() + skipped);
      whole.most_likely.erase(whole.most_likely.begin(), whole.most_likely.begin() + skipped);
      whole.top_logprobs.erase(whole.top_logprobs.begin(), whole.top_logprobs.begin() + skipped * (i % 4));
      CHECK(are_equal(score, whole));
      num_cached += handle->stats().prompt_cached_tokens;
    }
    CHECK(num_cached > 500);
  }
}

// The score is there with the first piece.
TEST(a_score_comes_before_the_output) {
  Engine engine(1);
  const auto handle = submit_score(engine, toy::prompt_of(200, 3), 20, 2);
  while (!handle->wait_for(0, 10ms)) {
  }
  CHECK(handle->piece(0) && handle->prompt_score());
}

// A pass of the scored prompt is interrupted for the cancellation of another one, and a cancelled score has no result.
TEST(an_interrupted_score_is_complete) {
  Engine engine(1);
  Gate gate;
  std::atomic<int> num_passes{0};
  engine.in_pass = [&] {
    if (++num_passes == 5) gate.wait();
  };
  const Tokens prompt = toy::prompt_of(1500, 4);
  const auto first = submit_score(engine, prompt, 0, 1), second = submit_score(engine, prompt, 0, 1);
  wait_for_passes(engine, 5);
  first->cancel();
  gate.is_open = true;
  CHECK(tokens_of(*first).empty() && !first->prompt_score());
  CHECK(error_of(*first) == "the request was cancelled");
  CHECK(tokens_of(*second).empty() && are_equal(*second->prompt_score(), score_of(prompt, 1)));
}

// A model that cannot truncate has lost its cache after a failed pass, and reads the prompt again.
TEST(a_score_after_a_pass_that_lost_the_cache) {
  toy::Model target(toy::vocabulary_size, 1, context, batch);
  target.goes_back = false;
  Decoder decoder(target, nullptr);
  Request request;
  request.score_prompt = true;
  request.max_tokens = 0;
  const Tokens prompt = toy::prompt_of(300, 5);
  ScheduledRequest text(0, request, prompt, 1, 0);
  text.begin_reading(0, 0);
  CHECK(!decoder.prefill(text.sequence(), 200));
  target.before_pass = [](int) { throw Cancelled("interrupted"); };
  CHECK_THROWS(decoder.prefill(text.sequence()), Cancelled, "interrupted");
  target.truncate(0, 0);
  target.before_pass = nullptr;
  CHECK(!text.prompt_score());
  CHECK(decoder.prefill(text.sequence()));
  CHECK(are_equal(*text.prompt_score(), score_of(prompt, 0)));
}

TEST(a_score_of_invalid_logits_is_an_error) {
  Engine engine(1);
  engine.target.table = [](const Tokens& tokens) {
    return std::vector<float>(toy::vocabulary_size,
                              tokens.size() == 70 ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  };
  const auto handle = submit_score(engine, toy::prompt_of(100, 6), 0, 0);
  CHECK(tokens_of(*handle).empty() && !handle->prompt_score());
  CHECK(error_of(*handle) == "the target model failed: logits contain NaN or +inf");
}

}  // namespace

TEST_MAIN()
