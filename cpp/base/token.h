// What models read and write.
#pragma once

#include <cstdint>

namespace specdec {

using Token = std::int32_t;  // an id of a vocabulary, from 0

}  // namespace specdec
