// Gets the grids of I-quants (weights/blocks/grids.h), which only ggml has, from blocks that it decodes.
#pragma once

#include "weights/blocks/format.h"

namespace specdec {

// Sets the grids that the type needs, and returns the type.
blocks::Type with_grids(blocks::Type type);

}  // namespace specdec
