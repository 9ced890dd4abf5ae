// Token ids.
#pragma once

#include <cstdint>

namespace specdec {

using Token = std::int32_t;  // index into the vocabulary, from 0

}  // namespace specdec
