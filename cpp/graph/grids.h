// The grids of I-quants (weights/blocks/grids.h), which only ggml has: read from blocks that it decodes.
#pragma once

#include "weights/blocks/format.h"

namespace specdec {

// The same type, after grids have been set.
blocks::Type with_grids(blocks::Type type);

}  // namespace specdec
