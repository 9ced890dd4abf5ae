// The row loops of this build and of the chosen instruction set.
#pragma once

#include <type_traits>
#include <vector>

#include "sampling/row_loops.h"

namespace specdec::sampling {

// Best first, scalar last, for pick() of base/isa.h.
const std::vector<const RowLoops*>& all_row_loops();

const RowLoops& row_loops();

// The functions of row_loops() for rows of this type.
template <class Logit>
const LogitLoops<Logit>& logit_loops() {
  if constexpr (std::is_same_v<Logit, float>) return row_loops().f32;
  else return row_loops().f64;
}

}  // namespace specdec::sampling
