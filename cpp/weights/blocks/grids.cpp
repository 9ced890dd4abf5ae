#include "weights/blocks/grids.h"

namespace specdec::blocks {
namespace {

Grids used;

}  // namespace

void set_grids(const Grids& grids) noexcept { used = grids; }
const Grids& grids() noexcept { return used; }

}  // namespace specdec::blocks
