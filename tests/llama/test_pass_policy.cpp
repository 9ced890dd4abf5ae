// Which passes inputs become (cpp/llama/pass_policy.h): every token is read once, in order, and the widths are those of
// the shape. No model.
#include <array>
#include <climits>
#include <map>

#include "check.h"
#include "llama/pass_policy.h"

namespace {

using namespace specdec;

const std::vector<Token> tokens(1024, 1);

struct Wanted {
  int slot, num_tokens, num_rows;
};

std::vector<PassInput> inputs_of(const std::vector<Wanted>& wanted) {
  std::vector<PassInput> inputs;
  for (const Wanted& one : wanted) {
    if (one.num_tokens > 0) inputs.push_back({one.slot, tokens.data(), one.num_tokens, one.num_rows});
  }
  return inputs;
}

// Whether the passes read each input's tokens once and in order, and make its last rows.
void check_covers(const std::vector<PassInput>& inputs, const PlannedPasses& passes) {
  std::map<int, int> read, rows;
  for (const PlannedPass& pass : passes) {
    int previous = -1;
    for (const PassPart& part : pass.parts) {
      CHECK(part.slot > previous && part.num_padding >= 0 && part.num_rows <= part.num_tokens);
      previous = part.slot;
      if (part.num_tokens > 0) CHECK(part.tokens == tokens.data() + read[part.slot]);
      if (rows[part.slot] > 0) CHECK(part.num_rows == part.num_tokens);  // rows are the last tokens'
      read[part.slot] += part.num_tokens;
      rows[part.slot] += part.num_rows;
    }
  }
  for (const PassInput& input : inputs) {
    CHECK(read[input.slot] == input.num_tokens && rows[input.slot] == input.num_rows);
    read.erase(input.slot);
  }
  for (const auto& [slot, count] : read) CHECK(count == 0);  // padding only
}

int total(const PlannedPass& pass) {
  int sum = 0;
  for (const PassPart& part : pass.parts) sum += part.num_tokens + part.num_padding;
  return sum;
}

}  // namespace

TEST(without_a_shape_all_inputs_share_a_pass) {
  constexpr int most = 5;
  for (const bool takes_back : {true, false}) {
    PassPolicy policy({64, 64, takes_back, true});
    const std::vector<PassPolicy::Slot> slots(4, {Cell(10), Cell(10)});
    std::array<int, 4> counts{};
    int num_padded = 0;
    for (int code = 1; code < most * most * most * most; ++code) {
      std::vector<Wanted> wanted;
      int rest = code, width = 0, num_tokens = 0;
      for (int slot = 0; slot < 4; ++slot, rest /= most) {
        counts[static_cast<std::size_t>(slot)] = rest % most;
        width = std::max(width, rest % most);
        num_tokens += rest % most;
        wanted.push_back({slot, rest % most, std::min(1, rest % most)});
      }
      const std::vector<PassInput> inputs = inputs_of(wanted);
      const PlannedPasses& passes = policy.plan(inputs, slots);
      CHECK(passes.size() == 1 && passes.front().first_row == 0 && passes.front().end_row == INT_MAX);
      check_covers(inputs, passes);
      if (total(passes.front()) == num_tokens) continue;
      ++num_padded;
      for (const PassPart& part : passes.front().parts) CHECK(part.num_tokens + part.num_padding == width);
    }
    CHECK((num_padded > 0) == takes_back);  // a recurrent state cannot take padding back
  }
}

TEST(trees_are_padded_if_the_model_can) {
  const std::vector<int> parents(9, -1);
  std::vector<PassInput> inputs = inputs_of({{0, 2, 2}, {1, 10, 10}, {2, 9, 9}});
  inputs[1].parents = &parents;
  std::vector<PassPolicy::Slot> slots(3, {Cell(10), Cell(10)});
  const auto padding_of = [&](bool pads_trees) {
    PassPolicy policy({64, 100, true, true, pads_trees});
    std::vector<int> padding;
    for (const PassPart& part : policy.plan(inputs, slots).front().parts) padding.push_back(part.num_padding);
    return padding;
  };
  CHECK(padding_of(true) == std::vector<int>({8, 0, 1}) && padding_of(false) == std::vector<int>({0, 0, 0}));
  slots[0].num_nodes = max_tree_nodes - 10;
  CHECK(padding_of(true) == std::vector<int>({8, 0, 1}));
  slots[0].num_nodes = max_tree_nodes - 9;  // its nodes and the padding would be too many
  CHECK(padding_of(true) == std::vector<int>({0, 0, 0}));
  slots[0] = {Cell(85), Cell(85), 5};
  CHECK(padding_of(true) == std::vector<int>({8, 0, 1}));
  slots[0].num_nodes = 6;  // no room in the cache
  CHECK(padding_of(true) == std::vector<int>({0, 0, 0}));
}

TEST(padding_needs_room_and_may_be_forbidden) {
  const std::vector<PassInput> inputs = inputs_of({{0, 4, 4}, {1, 1, 1}, {2, 1, 1}});
  const auto is_padded = [&](int batch_size, int held, bool allows) {
    PassPolicy policy({batch_size, 64, true, allows});
    return total(policy.plan(inputs, std::vector<PassPolicy::Slot>(3, {Cell(held), Cell(held)})).front()) > 6;
  };
  CHECK(is_padded(64, 10, true));
  CHECK(!is_padded(11, 10, true));
  CHECK(is_padded(12, 60, true) && !is_padded(12, 61, true));
  CHECK(!is_padded(64, 10, false));
}

// Prompts in whole pieces, then passes of the shape's width; where padding is left out, equal passes are shared.
TEST(with_a_shape_passes_have_its_widths) {
  for (const bool pads : {true, false}) {
    PassPolicy policy({512, 1024, true, true});
    PassShape shape = PassShape::of(8, 512, true);
    shape.pads = pads;
    policy.use(shape);
    for (const int begin : {0, 3, 250, 256, 300}) {
      for (const int count : {1, 2, 7, 8, 9, 30, 64}) {
        for (const int rows : {0, 1, count}) {
          const std::vector<PassInput> inputs =
              inputs_of({{0, count, std::min(rows, 8)}, {1, count, std::min(rows, 8)}});
          const PassPolicy::Slot slot{Cell(begin), Cell(rows == 0 ? begin + count : begin)};
          const auto& passes = policy.plan(inputs, {slot, slot});
          check_covers(inputs, passes);
          for (const PlannedPass& pass : passes) {
            for (const PassPart& part : pass.parts) {
              const int width = part.num_tokens + part.num_padding;
              CHECK(width == 8 || width == 32 || width == 256 || (!pads && width < 8));
            }
            CHECK(pass.parts.size() == 1 || !pads);
            CHECK(pass.makes_all_rows == (pass.parts.front().num_rows > 0));
          }
          const bool is_shared = passes.front().parts.size() > 1;
          const bool can_share = !pads && rows == count && count <= 4;  // together at most 8 tokens
          if (!can_share) CHECK(!is_shared);
          else if (begin != 250 && begin != 3) CHECK(is_shared);
        }
      }
    }
  }
}

TEST_MAIN()
