// Cuts tokens into passes on devices whose kernels are not batch-invariant, so that what a pass computes for a token
// depends only on the text (docs/losslessness.md).
//
// On such devices the bits of a row depend on the shape of its pass (its width, and the number of cells that attention
// runs over, which llama.cpp rounds up to multiples of 256), but not on the other tokens. So passes have one of a few
// widths, padded with tokens after their own, and both numbers are functions of the text up to a token:
// - tokens of the prompt are read in pieces that begin at multiples of their width, from the beginning or a picture on;
// - a pass over later tokens takes none past a boundary, where the cells of a full pass would be rounded up to more.
//
// If the kernels for few tokens are batch-invariant (invariant_kernels.h), passes after the prompt need no padding.
#pragma once

#include <vector>

#include "llama/token_number.h"

namespace specdec {

struct PassShape {
  static constexpr int cell_step = 256;

  int width = 8;                 // of passes over tokens after the prompt; without padding: at most
  bool pads = true;              // these passes
  int prompt_width = cell_step;  // divides cell_step; wider passes would read more again when prompts share a prefix
  int rest_width = 32;           // for the rest of a prompt after its whole pieces; divides prompt_width
  bool pads_prompts = true;      // the last piece of a prompt is also padded; otherwise it is read in passes of `width`

  struct Piece {
    Cell begin;
    int count;  // of tokens
    int width;  // of the pass: count, plus padding
  };
  // Tokens from `begin` on, before `end`.
  std::vector<Piece> pieces(Cell begin, Cell end) const;
  std::vector<Piece> prompt_pieces(Cell begin, Cell end) const;

  // Cells that attention runs over in this piece's pass, not limited by the size of the cache.
  static int num_cells(const Piece& piece);
  // How many of `count` tokens that were read in pieces have the same bits as the beginning of other tokens.
  int reusable(int count) const { return count / prompt_width * prompt_width; }

  // Uses the widest prompt pieces that a pass of batch_size tokens allows.
  static PassShape of(int width, int batch_size, bool pads_prompts);
};

}  // namespace specdec
