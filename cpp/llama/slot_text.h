// What the cells of a slot hold of its text. Three numbers of a token are told apart:
//   place     its number in the text, from 0
//   position  llama.cpp's number, by which a model rotates keys; 0 where reading of these cells began
//   cell      where it lies in the slot's cache; earlier cells may have been dropped
#pragma once

#include <cstdint>
#include <vector>

namespace specdec {

struct SlotText {
  int length = 0;         // one past the last place in the cache
  int first = 0;          // the first place in the cache
  int origin = 0;         // the place with position 0
  int length_before = 0;  // before the running or last pass
  int prompt_end = 0;     // places before it are the prompt's, which is read in prompt pieces
  int whole_pieces = 0;   // places before it were read in whole prompt pieces
  int padding = 0;        // tokens after the last piece's own that a recurrent state has read
  // A tree behind the last place: of each node, the nodes that it sees, itself included, as bits.
  std::vector<std::uint64_t> visible;

  int position_of(int place) const { return place - origin; }
  int place_of(int position) const { return origin + position; }
  int next_position() const { return position_of(length); }
  int num_cells() const { return length - first; }
  // Forgets the cells; the next token that is read has this place.
  void start_at(int place) {
    length = first = origin = place;
    whole_pieces = padding = 0;
    visible.clear();
  }
};

}  // namespace specdec
