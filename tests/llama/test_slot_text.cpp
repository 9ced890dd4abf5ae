// Places, positions and cells of a text with pictures, compared with lists that have one entry for each place.
#include <utility>
#include <vector>

#include "check.h"
#include "llama/slot_text.h"

using specdec::Cell;
using specdec::Position;
using specdec::SlotText;

namespace {

// A text of two pictures between tokens. num_positions: of each; has_cells: whether the model reads them.
struct Example {
  int num_positions;
  bool has_cells;
  SlotText text;
  std::vector<int> positions;  // of each place, and one past the last
};

Example example(int num_positions, bool has_cells, int origin) {
  Example made{num_positions, has_cells, {}, {}};
  made.text.start_at(origin);
  int position = 0;
  const auto tokens = [&](int count) {
    for (int i = 0; i < count; ++i) made.positions.push_back(position++);
  };
  const auto picture = [&](int num_places) {
    made.text.pictures.push_back(
        {origin + static_cast<int>(made.positions.size()), num_places, num_positions, has_cells});
    for (int i = 0; i < num_places; ++i)
      made.positions.push_back(position + std::min(i, std::max(0, num_positions - 1)));
    position += num_positions;
  };
  tokens(2);
  picture(5);
  tokens(1);
  picture(6);
  tokens(3);
  made.text.length = origin + static_cast<int>(made.positions.size());
  made.positions.push_back(position);
  return made;
}

}  // namespace

TEST(positions_follow_the_pictures) {
  for (const bool has_cells : {true, false}) {
    for (const int num_positions : {0, 1, 3, 5}) {
      for (const int origin : {0, 7}) {
        const Example one = example(num_positions, has_cells, origin);
        for (std::size_t i = 0; i < one.positions.size(); ++i) {
          const int place = origin + static_cast<int>(i);
          CHECK(one.text.position_of(place).value == one.positions[i]);
        }
        CHECK(one.text.next_position().value == one.positions.back());
        CHECK(one.text.next_cell() == Cell(has_cells ? 17 : 6));
        for (const int place : {0, 1, 2, 7, 8, 14, 15, 16}) {  // outside pictures
          const bool is_ambiguous = num_positions == 0 && (place == 7 || place == 14);
          const int found = one.text.place_of(one.text.position_of(origin + place)) - origin;
          CHECK(is_ambiguous ? found <= place : found == place);
        }
      }
    }
  }
}

TEST(tokens_begin_behind_a_picture) {
  const SlotText text = example(3, true, 0).text;  // pictures at 2 .. 6 and 8 .. 13
  for (const auto& [place, begin] :
       std::vector<std::pair<int, int>>{{0, 0}, {6, 0}, {7, 7}, {13, 7}, {14, 14}, {17, 14}})
    CHECK(text.begin_of_tokens(place) == begin);
}

TEST(pictures_are_dropped_whole) {
  Example one = example(3, true, 0);
  CHECK(one.text.whole_pictures(4) == 2 && one.text.whole_pictures(7) == 7 && one.text.whole_pictures(9) == 8);
  one.text.shorten(8);
  CHECK(one.text.pictures.size() == 1 && one.text.next_position() == Position(2 + 3 + 1));
  one.text.shorten(2);
  CHECK(one.text.pictures.empty() && one.text.next_position() == Position(2));
}

// A draft counts the places of a picture, one by one or in several passes; a head takes the target's positions.
TEST(places_that_are_not_read) {
  SlotText draft;
  draft.length = 2;
  for (int i = 0; i < 5; ++i) draft.skip_place(nullptr);
  CHECK(draft.length == 7 && draft.next_position() == Position(2) && draft.next_cell() == Cell(2) &&
        draft.pictures.size() == 1);
  const Example target = example(3, true, 0);
  SlotText head;
  head.length = 2;
  for (int place = 2; place < 7; ++place) head.skip_place(target.text.picture_at(place));
  CHECK(head.length == 7 && head.next_position() == Position(5) && head.next_cell() == Cell(2) &&
        head.pictures.size() == 1);
}

TEST_MAIN()
