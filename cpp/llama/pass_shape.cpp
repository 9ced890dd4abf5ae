#include "llama/pass_shape.h"

#include <algorithm>

namespace specdec {
namespace {

int round_up(int number, int step) { return (number + step - 1) / step * step; }

}  // namespace

int PassShape::num_cells(const Piece& piece) { return round_up(piece.begin.value + piece.width, cell_step); }

// A pass that begins at p has round_up(p + width, cell_step) cells: the same number for all p up to that multiple minus
// width. Without padding a token's pass has as many cells as a pass over that token alone.
std::vector<PassShape::Piece> PassShape::pieces(Cell begin, Cell end) const {
  const int least = pads ? width : 1;
  std::vector<Piece> result;
  while (begin < end) {
    const Cell boundary(round_up(begin.value + least, cell_step) - least + 1);
    const int count = std::min({width, end - begin, boundary - begin});
    result.push_back({begin, count, std::max(count, least)});
    begin += count;
  }
  return result;
}

std::vector<PassShape::Piece> PassShape::prompt_pieces(Cell begin, Cell end) const {
  std::vector<Piece> result;
  for (; end - begin >= prompt_width; begin += prompt_width) result.push_back({begin, prompt_width, prompt_width});
  for (; end - begin >= rest_width; begin += rest_width) result.push_back({begin, rest_width, rest_width});
  if (begin == end) return result;
  if (pads_prompts) {
    result.push_back({begin, end - begin, rest_width});
  } else {
    for (const Piece& piece : pieces(begin, end)) result.push_back(piece);
  }
  return result;
}

PassShape PassShape::of(int width, int batch_size, bool pads_prompts) {
  PassShape shape;
  shape.width = width;
  shape.pads_prompts = pads_prompts;
  while (shape.prompt_width > batch_size) shape.prompt_width /= 2;
  shape.rest_width = std::min(shape.rest_width, shape.prompt_width);
  return shape;
}

}  // namespace specdec
