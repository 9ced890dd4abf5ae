// The colour of a token of the output.
#pragma once

#include "cli/terminal/color.h"
#include "engine/request.h"

namespace specdec::cli {

// Accepted drafts of a model are green, copies of text cyan.
inline Style style_of(const Piece& piece) {
  return !piece.from_draft() ? Style::plain : is_copy(piece.origin) ? Style::cyan : Style::green;
}

}  // namespace specdec::cli
