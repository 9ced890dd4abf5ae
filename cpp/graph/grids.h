// Gets the grids of I-quants (weights/blocks/grids.h), which only ggml has, from blocks that it decodes.
#pragma once

#include "weights/blocks/format.h"

namespace specdec {

// Returns the type, after it has set the grids that it may need.
blocks::Type with_grids(blocks::Type type);

}  // namespace specdec
