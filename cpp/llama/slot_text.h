// What the cells of a slot hold of its text. Three numbers of a token are told apart:
//   place     its number in the text, from 0; an int
//   position  llama.cpp's number, by which a model rotates keys; 0 where reading of these cells began; a Position
//   cell      its number among the tokens in the slot's cache, where earlier ones may have been dropped; a Cell
// They differ by what was dropped and by pictures: under M-RoPE a picture has fewer positions than places, and a model
// that does not read pictures has neither positions nor cells of them.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <vector>

#include "llama/token_number.h"
#include "speculative/text.h"

namespace specdec {

struct SlotText {
  struct Picture {
    int place, num_places;
    int num_positions;
    bool has_cells;  // one per place
    int end() const { return place + num_places; }
    int positions_before(int at) const {  // of those that begin before this place
      return at >= end() ? num_positions : std::clamp(at - place, 0, std::max(0, num_positions - 1));
    }
  };

  int length = 0;         // one past the last place in the cache
  int first = 0;          // the first place in the cache
  int origin = 0;         // the place with position 0
  int length_before = 0;  // before the running or last pass
  int prompt_end = 0;     // places before it are the prompt's, which is read in prompt pieces
  int whole_pieces = 0;   // places before it were read in whole prompt pieces, or are those of pictures between them
  int padding = 0;        // tokens after the last piece's own that a recurrent state has read
  // A tree behind the last place: of each node, the nodes that it sees, itself included, as bits.
  std::vector<std::uint64_t> visible;
  bool has_rounded_nodes = false;  // they were read with rounded weights
  std::vector<Picture> pictures;   // from `origin` on, ascending

  Position position_of(int place) const {
    Position position(place - origin);
    for (const Picture& picture : pictures) {
      if (place <= picture.place) break;
      position += picture.place + picture.positions_before(place) - std::min(place, picture.end());
    }
    return position;
  }
  // The first place with this position.
  int place_of(Position position) const {
    int place = origin + position.value;
    for (const Picture& picture : pictures) {
      if (position <= position_of(picture.place)) break;
      place += picture.num_places - picture.num_positions;
    }
    return place;
  }
  int num_nodes() const { return static_cast<int>(visible.size()); }
  static int num_visible(std::uint64_t nodes) { return static_cast<int>(std::bitset<64>(nodes).count()); }
  int num_levels() const {
    int most = 0;
    for (const std::uint64_t nodes : visible) most = std::max(most, num_visible(nodes));
    return most;
  }
  void clear_nodes() {
    visible.clear();
    has_rounded_nodes = false;
  }
  Position next_position() const { return position_of(length); }
  // Of a place in the cache, or of one behind it if that is of a token.
  Cell cell_of(int place) const {
    Cell cell(place - first);
    for (const Picture& picture : pictures) {
      if (!picture.has_cells) cell += -std::max(0, std::min(place, picture.end()) - std::max(first, picture.place));
    }
    return cell;
  }
  Cell next_cell() const { return cell_of(length); }
  // Of the tokens up to this place that have no picture between them.
  int begin_of_tokens(int place) const { return end_of_picture_before(pictures, place, origin); }
  // `at`, or the place of the picture that it would cut.
  int whole_pictures(int at) const {
    for (const Picture& picture : pictures) {
      if (picture.has_cells && picture.place < at && at < picture.end()) return picture.place;
    }
    return at;
  }
  void shorten(int to) {
    length = to;
    while (!pictures.empty() && pictures.back().place >= to) pictures.pop_back();
  }
  // The picture that has this place; null: none.
  const Picture* picture_at(int place) const {
    const auto has_place = [place](const Picture& picture) { return picture.place <= place && place < picture.end(); };
    const auto found = std::find_if(pictures.begin(), pictures.end(), has_place);
    return found == pictures.end() ? nullptr : &*found;
  }
  // Counts a place of a picture that is not read. same: the picture in a context whose positions this one has; null: it
  // takes none.
  void skip_place(const Picture* same) {
    if (picture_at(length) == nullptr) {
      const bool goes_on = !pictures.empty() && pictures.back().end() == length && pictures.back().num_positions == 0;
      if (same != nullptr) pictures.push_back({same->place, same->num_places, same->num_positions, false});
      else if (goes_on) ++pictures.back().num_places;
      else pictures.push_back({length, 1, 0, false});
    }
    ++length;
  }
  // Forgets the cells; the next token that is read has this place.
  void start_at(int place) {
    length = first = origin = place;
    whole_pieces = padding = 0;
    clear_nodes();
    pictures.clear();
  }
};

}  // namespace specdec
