// What slots cache and what they are said to cache, over caches that fail at any step: a label is never on other tokens
// than its own.

#include <algorithm>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/slot_ledger.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

constexpr int num_slots = 3;

// The caches of a target and of a draft: the tokens themselves.
class Caches final : public SlotCaches {
 public:
  int num_cached(int slot) const override { return static_cast<int>(target(slot).size()); }
  void copy_prefix(int from, int to, int length) override {
    step();
    target(to) = target(from);
    step();
    draft(to) = draft(from);
    (void)keep_prefix(to, length);
  }
  int keep_prefix(int slot, int length) override {
    for (Tokens* tokens : {&target(slot), &draft(slot)}) {
      step();
      tokens->resize(std::min(tokens->size(), static_cast<std::size_t>(length)));
    }
    return num_cached(slot);
  }
  int reuse_prefix(int slot, int length) override { return keep_prefix(slot, length / piece * piece); }

  Tokens& target(int slot) { return targets_.at(static_cast<std::size_t>(slot)); }
  const Tokens& target(int slot) const { return targets_.at(static_cast<std::size_t>(slot)); }
  Tokens& draft(int slot) { return drafts_.at(static_cast<std::size_t>(slot)); }

  // The at-th step from now on fails, and, if it stays, all after it.
  void fail(int at, bool stays) { countdown_ = at, stays_ = stays, has_failed_ = false; }
  bool heal() {
    countdown_ = 0;
    return has_failed_;
  }
  void step() {
    if (countdown_ == 0) return;
    --countdown_;
    if (countdown_ > 0) return;
    has_failed_ = true;
    if (stays_) countdown_ = 1;
    throw std::bad_alloc();
  }

  int piece = 1;  // prefixes are used in multiples of it

 private:
  std::vector<Tokens> targets_{num_slots}, drafts_{num_slots};
  int countdown_ = 0;
  bool stays_ = false, has_failed_ = false;
};

Tokens text_of(int id, int length) {
  Tokens tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(i < 4 ? i : 100 * (id + 1) + i);
  return tokens;
}

struct Machine {
  SlotLedger::Holder request(int length) {
    const int id = num_requests++;
    return std::make_shared<ScheduledRequest>(id, Request(), text_of(id, length), 1, 0);
  }

  // Fills a slot with the text of a new request as the scheduler does: from another slot, with a state, or by reading.
  SlotLedger::Holder begin(int place, int length, int source = -1, bool is_restored = false) {
    const SlotLedger::Holder next = request(length);
    {
      SlotLedger::Change change(ledger, place);
      const Tokens& tokens = next->sequence().tokens;
      int prefix = 0;
      if (source >= 0 && change.fill([&] { return caches.copy_prefix(source, place, 4), true; })) prefix = 4;
      if (is_restored && change.fill([&] { return restore(place, tokens); })) prefix = length - 1;
      prefix = change.keep(prefix);
      change.commit(next);
    }
    next->begin_reading(place, ledger.number(place));
    return next;
  }
  bool restore(int place, const Tokens& tokens) {
    (void)caches.keep_prefix(place, 0);
    caches.target(place).assign(tokens.begin(), tokens.end() - 1);
    caches.step();
    caches.draft(place).assign(tokens.begin(), tokens.end() - 2);
    caches.step();
    return true;
  }
  // Reads what is not cached, and ends the request.
  void finish(const SlotLedger::Holder& running) {
    const Tokens& tokens = running->sequence().tokens;
    const int place = running->sequence().slot;
    caches.target(place).assign(tokens.begin(), tokens.end() - 1);
    caches.draft(place).assign(tokens.begin(), tokens.end() - 3);
    running->end();
  }

  void check() {
    std::vector<int> numbers;
    for (int place = 0; place < num_slots; ++place) {
      numbers.push_back(ledger.number(place));
      CHECK(ledger.place_of(ledger.number(place)) == place);
      if (ledger.state(place) == SlotLedger::State::empty) {
        CHECK(ledger.length(place) == 0 && ledger.text(place) == nullptr && !ledger.holder(place));
        continue;
      }
      const Tokens& tokens = ledger.text(place)->tokens;
      CHECK(ledger.holds(place, *ledger.holder(place)) && ledger.holder(place)->sequence().slot == place);
      CHECK(ledger.length(place) == caches.num_cached(place));
      for (const Tokens* cached : {&caches.target(place), &caches.draft(place)})
        CHECK(cached->size() <= tokens.size() && std::equal(cached->begin(), cached->end(), tokens.begin()));
    }
    std::sort(numbers.begin(), numbers.end());
    for (int i = 0; i < num_slots; ++i) CHECK(numbers[static_cast<std::size_t>(i)] == i);
  }

  Caches caches;
  SlotLedger ledger{caches, num_slots};
  int num_requests = 0;
};

// Runs the operation on a machine with two idle slots and an empty one, with a fault at each step; then every slot can
// still be used.
template <class Operation>
int with_a_fault_at_every_step(Operation&& operation) {
  int num_failed = 0;
  for (const bool stays : {false, true}) {
    for (int at = 1;; ++at) {
      Machine machine;
      machine.finish(machine.begin(0, 20));
      machine.finish(machine.begin(1, 30));
      machine.check();
      machine.caches.fail(at, stays);
      try {
        operation(machine);
      } catch (const std::bad_alloc&) {
      }
      machine.check();
      const bool has_failed = machine.caches.heal();
      num_failed += has_failed ? 1 : 0;
      for (int place = 0; place < num_slots; ++place) {
        if (machine.ledger.is_busy(place)) machine.finish(machine.ledger.holder(place));
        machine.finish(machine.begin(place, 9, (place + 1) % num_slots));
        machine.check();
      }
      if (!has_failed) break;
    }
  }
  return num_failed;
}

}  // namespace

TEST(a_slot_is_empty_idle_or_busy) {
  Machine machine;
  machine.check();
  const auto running = machine.begin(1, 10);
  CHECK(machine.ledger.state(0) == SlotLedger::State::empty && machine.ledger.state(1) == SlotLedger::State::busy);
  CHECK(machine.ledger.length(1) == 0 && !machine.ledger.holds(0, *running) && !machine.ledger.holds(-1, *running));
  CHECK_THROWS(SlotLedger::Change(machine.ledger, 1), std::logic_error, "while its request runs");
  CHECK(machine.ledger.is_busy(1) && machine.ledger.holds(1, *running));
  machine.finish(running);
  CHECK(machine.ledger.state(1) == SlotLedger::State::idle && machine.ledger.length(1) == 9);
  machine.ledger.clear(1);
  CHECK(machine.ledger.state(1) == SlotLedger::State::empty && machine.caches.num_cached(1) == 0);
  CHECK_THROWS(machine.ledger.move(1, 0), std::logic_error, "nothing to move");
}

TEST(a_slots_own_prefix_stays_until_it_is_replaced) {
  Machine machine;
  machine.caches.piece = 3;
  machine.finish(machine.begin(0, 20));
  {
    SlotLedger::Change change(machine.ledger, 0);
    CHECK(machine.ledger.state(0) == SlotLedger::State::empty && machine.ledger.length(0) == 0);
    CHECK(change.keep(5) == 3);
    change.commit(machine.request(8));
  }
  CHECK(machine.ledger.length(0) == 3);
  {
    SlotLedger::Change change(machine.ledger, 0);
    CHECK(!change.fill([] { return false; }) && machine.caches.num_cached(0) == 0);
    CHECK(!change.fill([]() -> bool { throw std::runtime_error("no"); }) && change.keep(3) == 0);
    CHECK_THROWS(change.fill([]() -> bool { throw Cancelled("not now"); }), Cancelled, "not now");
  }
  CHECK(machine.ledger.state(0) == SlotLedger::State::empty);
  machine.check();
}

TEST(a_change_that_is_not_committed_leaves_the_slot_empty) {
  Machine machine;
  machine.finish(machine.begin(0, 20));
  {
    const SlotLedger::Change change(machine.ledger, 0);
  }
  CHECK(machine.ledger.state(0) == SlotLedger::State::empty && machine.caches.num_cached(0) == 0);
}

TEST(a_fault_at_any_step_of_a_copy) {
  CHECK(with_a_fault_at_every_step([](Machine& machine) { machine.begin(2, 12, 0); }) > 8);
  CHECK(with_a_fault_at_every_step([](Machine& machine) { machine.begin(1, 12, 0); }) > 8);
}

TEST(a_fault_at_any_step_of_a_restore) {
  CHECK(with_a_fault_at_every_step([](Machine& machine) { machine.begin(2, 12, -1, true); }) > 8);
  CHECK(with_a_fault_at_every_step([](Machine& machine) { machine.begin(1, 12, 0, true); }) > 12);
}

TEST(a_fault_at_any_step_of_a_move) {
  const int failed = with_a_fault_at_every_step([](Machine& machine) {
    const SlotLedger::Holder moved = machine.ledger.holder(0);
    const Tokens before = machine.caches.target(0);
    try {
      machine.ledger.move(0, 2);
    } catch (const std::bad_alloc&) {  // nothing has moved
      CHECK(machine.ledger.holds(0, *moved) && machine.caches.target(0) == before && machine.ledger.number(0) == 0);
      CHECK(machine.ledger.state(2) == SlotLedger::State::empty);
      throw;
    }
    CHECK(machine.ledger.holds(2, *moved) && machine.caches.target(2) == before && machine.ledger.number(2) == 0);
    CHECK(machine.ledger.state(0) == SlotLedger::State::empty && machine.ledger.number(0) == 2);
  });
  CHECK(failed > 8);
  with_a_fault_at_every_step([](Machine& machine) { machine.ledger.move(0, 1); });  // what was there is lost
}

TEST(a_fault_at_any_step_of_emptying_a_slot) {
  CHECK(with_a_fault_at_every_step([](Machine& machine) { machine.ledger.clear(0); }) > 2);
}

TEST(random_changes_that_fail_now_and_then) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
    Machine machine;
    machine.caches.piece = 1 + below(3);
    for (int i = 0; i < 40; ++i) {
      const int place = below(num_slots), other = below(num_slots);
      if (below(2) == 0) machine.caches.fail(1 + below(12), below(2) == 0);
      try {
        if (machine.ledger.is_busy(place)) {
          if (below(2) == 0) machine.finish(machine.ledger.holder(place));
          else if (below(3) == 0) machine.ledger.clear(place);
          else if (place != other && !machine.ledger.is_busy(other)) machine.ledger.move(place, other);
        } else if (machine.ledger.holder(place) && place != other && below(4) == 0 && !machine.ledger.is_busy(other)) {
          machine.ledger.move(place, other);
        } else {
          const int source = place != other && machine.ledger.length(other) >= 4 ? other : -1;
          machine.begin(place, 6 + below(30), source, below(3) == 0);
        }
      } catch (const std::bad_alloc&) {
      }
      machine.caches.heal();
      machine.check();
    }
  }
}

TEST_MAIN()
