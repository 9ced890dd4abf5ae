// Which slot a request takes: conversations keep what they cached, whatever comes between their turns.

#include <algorithm>
#include <cstdio>
#include <limits>
#include <random>

#include "check.h"
#include "engine/slot_choice.h"

namespace {

using namespace specdec;

// `length` tokens of conversation `id`, of which the first `shared` are those of all (a chat template, a system
// prompt).
Text conversation(int id, int length, int shared = 3) {
  Text text;
  for (int i = 0; i < length; ++i) text.tokens.push_back(i < shared ? i : 1000 * (id + 1) + i);
  return text;
}

// Slots in which requests run one after another.
struct Machine {
  explicit Machine(int num_slots) : contents(static_cast<std::size_t>(num_slots)), choice(num_slots) {}

  // Runs a request that makes `answer` tokens; returns how many tokens of its prompt were read.
  int run(const Text& prompt, int answer = 0) {
    std::vector<SlotChoice::Slot> slots;
    for (const Text& text : contents) slots.push_back({true, &text, text.length(), static_cast<int>(slots.size())});
    const auto chosen = choice.choose(prompt, prompt.length() - 1, slots);
    CHECK(chosen.has_value());
    slot = chosen->slot;
    choice.use(slot);
    const int cached = std::max(chosen->prefix, chosen->source_prefix);
    contents[static_cast<std::size_t>(slot)] = prompt;
    for (int i = 0; i < answer; ++i)
      contents[static_cast<std::size_t>(slot)].tokens.push_back(prompt.tokens.back() + 1 + i);
    choice.use(slot);
    return prompt.length() - cached;
  }

  std::vector<Text> contents;
  SlotChoice choice;
  int slot = -1;  // of the last request
};

// A request: a turn of a conversation.
struct Turn {
  int id, length;
};

// Fewest tokens that any choice of slots reads: all choices are tried. Prefixes of other slots are copied.
int fewest_read(const std::vector<Turn>& turns, std::size_t at, std::vector<Turn> slots) {
  if (at == turns.size()) return 0;
  const Turn& turn = turns[at];
  int cached = 0;
  for (const Turn& slot : slots) {
    cached = std::max(cached, std::min(slot.length, slot.id == turn.id ? turn.length - 1 : 3));
  }
  int fewest = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i > 0 && slots[i].length == 0 && slots[i - 1].length == 0) continue;  // empty slots are alike
    std::vector<Turn> after = slots;
    after[i] = turn;
    fewest = std::min(fewest, turn.length - cached + fewest_read(turns, at + 1, after));
  }
  return fewest;
}

// The earlier choice: the slot with the longest prefix.
int read_by_longest_prefix(const std::vector<Turn>& turns, std::size_t num_slots) {
  std::vector<Turn> slots(num_slots, Turn{-1, 0});
  int sum = 0;
  for (const Turn& turn : turns) {
    const auto prefix = [&](const Turn& slot) {
      return std::min(slot.length, slot.id == turn.id ? turn.length - 1 : 3);
    };
    const auto best = std::max_element(slots.begin(), slots.end(),
                                       [&](const Turn& a, const Turn& b) { return prefix(a) < prefix(b); });
    sum += turn.length - prefix(*best);
    *best = turn;
  }
  return sum;
}

}  // namespace

TEST(a_side_request_leaves_the_conversation_alone) {
  Machine machine(4);
  CHECK(machine.run(conversation(0, 543), 20) == 543);
  CHECK(machine.run(conversation(1, 30)) <= 30 && machine.slot == 1);
  CHECK(machine.run(conversation(0, 543 + 20 + 15)) == 15 && machine.slot == 0);
  for (int i = 0; i < 20; ++i) {  // and many of them use one slot after another, then always the same
    machine.run(conversation(2 + i, 40));
    CHECK(machine.slot != 0);
  }
  CHECK(machine.run(conversation(0, 600)) <= 37 + 20 && machine.slot == 0);
}

TEST(conversations_that_take_turns_each_keep_their_slot) {
  for (const int num_slots : {2, 4}) {
    Machine machine(num_slots);
    machine.run(conversation(0, 500));
    machine.run(conversation(1, 300));
    for (int turn = 1; turn < 30; ++turn) {
      CHECK(machine.run(conversation(0, 500 + 20 * turn)) == 20);
      CHECK(machine.run(conversation(1, 300 + 10 * turn)) == 10);
    }
  }
}

TEST(a_shared_prefix_is_copied_instead_of_taken_from_its_owner) {
  Machine machine(3);
  machine.run(conversation(0, 900, 400));
  CHECK(machine.run(conversation(1, 700, 400)) == 300 && machine.slot == 1);
  CHECK(machine.run(conversation(0, 950, 400)) == 50 && machine.slot == 0);
  // A duplicate is worth nothing: both conversations are still there after the next one.
  machine.run(conversation(2, 800, 400));
  machine.run(conversation(0, 1000, 400));
  CHECK(machine.run(conversation(1, 720, 400)) == 20 && machine.run(conversation(2, 810, 400)) == 10);
}

TEST(a_prompt_that_was_edited_near_its_end_stays_in_its_slot) {
  Machine machine(4);
  machine.run(conversation(0, 500), 10);
  Text edited = conversation(0, 490);
  edited.tokens.push_back(7);
  CHECK(machine.run(edited) == 1 && machine.slot == 0);
}

TEST(conversations_that_are_not_used_make_room) {
  Machine machine(3);
  for (const int id : {0, 1, 2}) machine.run(conversation(id, 4000));
  // Two shorter ones that take turns get slots of their own: the second does not overwrite the first for ever.
  int read = 0;
  for (int turn = 0; turn < 40; ++turn) {
    read += machine.run(conversation(10, 500 + turn));
    read += machine.run(conversation(11, 500 + turn));
  }
  CHECK(read < 12000);
  CHECK(machine.run(conversation(10, 600)) < 100 && machine.run(conversation(11, 600)) < 100);
}

TEST(equal_losses_are_decided_by_the_last_use) {
  Machine machine(3);
  for (const int id : {0, 1, 2}) machine.run(conversation(id, 200));
  machine.run(conversation(0, 200));
  machine.run(conversation(3, 200));
  CHECK(machine.slot == 1);
  machine.run(conversation(4, 200));
  CHECK(machine.slot == 2);
}

TEST(only_free_slots_are_chosen) {
  SlotChoice choice(3);
  const Text prompt = conversation(0, 100);
  const auto slot = [&](bool is_free, int length) { return SlotChoice::Slot{is_free, &prompt, length, 0}; };
  CHECK(!choice.choose(prompt, 99, {slot(false, 100), slot(false, 50), slot(false, 0)}));
  const auto chosen = choice.choose(prompt, 99, {slot(false, 100), slot(true, 50), slot(true, 90)});
  CHECK(chosen && chosen->slot == 2 && chosen->prefix == 90 && chosen->source == -1);
  const auto copied = choice.choose(prompt, 99, {slot(false, 100), slot(true, 0), slot(false, 20)});
  CHECK(copied && copied->slot == 1 && copied->source == 0 && copied->source_prefix == 99);
  CHECK(choice.choose(prompt, 99, {slot(false, 31), slot(true, 0), slot(false, 20)})->source ==
        -1);  // reading is as fast
  CHECK(choice.choose(prompt, 0, {slot(false, 100), slot(true, 50), slot(true, 0)})->slot ==
        2);  // a prompt to be scored
}

TEST(a_duplicate_is_overwritten_rather_than_a_short_text_that_nobody_else_has) {
  SlotChoice choice(3);
  const Text twice = conversation(0, 500), once = conversation(1, 40), prompt = conversation(2, 100);
  const std::vector<SlotChoice::Slot> slots = {{true, &once, 40, 0}, {true, &twice, 500, 1}, {true, &twice, 480, 2}};
  for (const int number : {0, 2, 1}) choice.use(number);
  CHECK(choice.choose(prompt, 99, slots)->slot == 2);  // all of it is in the other one, too
}

TEST(a_prefix_is_copied_from_the_length_on_at_which_reading_takes_as_long) {
  const Text prompt = conversation(0, 100);
  for (const int own : {0, 7}) {
    for (const int more : {worth_copying - 1, worth_copying}) {
      SlotChoice choice(2);
      const auto chosen = choice.choose(prompt, 99, {{false, &prompt, own + more, 0}, {true, &prompt, own, 1}});
      CHECK(chosen && chosen->slot == 1 && chosen->prefix == own);
      CHECK(chosen->source == (more < worth_copying ? -1 : 0));
      CHECK(chosen->source_prefix == (more < worth_copying ? -1 : own + more));
    }
  }
}

TEST(ages_belong_to_the_contents_wherever_they_are) {
  SlotChoice choice(3);
  const Text texts[] = {conversation(0, 100), conversation(1, 100), conversation(2, 100)};
  for (const int number : {2, 0, 1}) choice.use(number);
  const auto slot = [&](int number) { return SlotChoice::Slot{true, &texts[number], 100, number}; };
  CHECK(choice.choose(conversation(5, 50), 49, {slot(0), slot(1), slot(2)})->slot == 2);
  CHECK(choice.choose(conversation(5, 50), 49, {slot(2), slot(0), slot(1)})->slot == 0);
}

// Random conversations, some of which are side requests of one turn, against the best choice that knows the future.
TEST(random_orders_against_the_best_choice) {
  long best = 0, ours = 0, longest_prefix = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int num_slots = 2 + static_cast<int>(random() % 2);
    const int num_conversations = 1 + static_cast<int>(random() % 3);
    std::vector<int> lengths;
    for (int i = 0; i < num_conversations; ++i) lengths.push_back(100 + static_cast<int>(random() % 1000));
    std::vector<Turn> turns;
    for (int i = 0; i < 9; ++i) {
      const auto id = static_cast<std::size_t>(random() % lengths.size());
      if (random() % 3 == 0) turns.push_back({100 + i, 10 + static_cast<int>(random() % 60)});
      else turns.push_back({static_cast<int>(id), lengths[id] += 1 + static_cast<int>(random() % 50)});
    }
    Machine machine(num_slots);
    int read = 0;
    for (const Turn& turn : turns) read += machine.run(conversation(turn.id, turn.length));
    const int fewest = fewest_read(turns, 0, std::vector<Turn>(static_cast<std::size_t>(num_slots), Turn{-1, 0}));
    CHECK(read >= fewest);
    best += fewest;
    ours += read;
    longest_prefix += read_by_longest_prefix(turns, static_cast<std::size_t>(num_slots));
  }
  std::printf("tokens read: %ld, the best choice %ld, the slot with the longest prefix %ld\n", ours, best,
              longest_prefix);
  CHECK(static_cast<double>(ours) < 1.15 * static_cast<double>(best));
  CHECK(static_cast<double>(longest_prefix) > 1.5 * static_cast<double>(best));
}

TEST_MAIN()
