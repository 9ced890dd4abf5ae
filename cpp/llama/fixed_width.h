// How tokens are cut into passes on devices whose kernels are not batch-invariant, so that what a pass computes for a
// token is a function of the text alone (docs/losslessness.md).
//
// There, the bits of a row depend on the shape of its pass: its width and the number of cells that attention runs over,
// which llama.cpp rounds up to multiples of 256. They do not depend on the other tokens. So a pass has one of few
// widths, filled up with tokens behind its own, and both numbers are functions of a token's position:
// - tokens of the prompt are read in pieces that begin at multiples of their width;
// - a pass over later tokens takes none past a boundary, where the cells of a full pass would be rounded up to more.
#pragma once

#include <vector>

namespace specdec {

struct FixedWidth {
  static constexpr int cell_step = 256;

  int width = 8;                 // of passes over tokens that are not read as a prompt
  int prompt_width = cell_step;  // divides cell_step: more would be read again where prompts share a prefix
  int rest_width = 32;           // of what a prompt has besides whole pieces; divides prompt_width
  bool pads_prompts = true;      // the last piece of a prompt is filled up, too; otherwise read in passes of `width`

  struct Piece {
    int begin, count;  // tokens, by position
    int width;         // of the pass: count, and filled up
  };
  // Tokens begin .. end - 1. Prompts begin at a multiple of prompt_width.
  std::vector<Piece> pieces(int begin, int end) const;
  std::vector<Piece> prompt_pieces(int begin, int end) const;

  // Cells that attention runs over, in a pass of this piece; unlimited by the size of the cache.
  static int num_cells(const Piece& piece);
  // How much of a prefix is as if it had been read from the beginning of another prompt; so much was read in pieces.
  int reusable(int length) const { return length / prompt_width * prompt_width; }

  // With the widest prompt pieces that a pass of batch_size tokens allows.
  static FixedWidth of(int width, int batch_size, bool pads_prompts);
};

}  // namespace specdec
