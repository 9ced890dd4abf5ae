// Requests of many threads on toy models: each has the same output as alone, whatever happens to the others.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
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

std::shared_ptr<Text> text_of(const Wish& wish, std::int64_t id) {
  Request request;
  request.max_tokens = wish.max_tokens;
  return std::make_shared<Text>(id, request, wish.prompt, wish.seed, 3);
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
    executor.emplace(scheduler, [this](Executor::CancelCheck check) { cancelled = std::move(check); }, options);
  }

  std::shared_ptr<RequestHandle> submit(const Wish& wish) { return executor->submit(text_of(wish, next_id++)); }

  toy::Model target, draft;
  FailingProposer proposer;
  Decoder decoder;
  Scheduler scheduler;
  Executor::CancelCheck cancelled;
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
  CHECK(!engine.cancelled);
  CHECK_THROWS(engine.submit(wish_of(1)), Cancelled, "closed");
  handles[0]->cancel();  // harmless
  engine.executor->close();
}

TEST(an_error_of_the_worker_is_everyones_and_it_goes_on) {
  Engine engine(2);
  Gate gate;
  engine.in_pass = [&] { gate.wait(); };
  const auto first = engine.submit({toy::prompt_of(5, 1), 10, 1}), second = engine.submit({toy::prompt_of(7, 2), 300, 2});
  engine.proposer.fails = true;  // when the first has ended
  gate.is_open = true;
  CHECK(!tokens_of(*second).empty());
  CHECK(!error_of(*first).empty() && !error_of(*second).empty());
  CHECK(tokens_of(*engine.submit(wish_of(4))) == alone(wish_of(4)));
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

}  // namespace

TEST_MAIN()
