// The memory available for models.
#pragma once

#include <cstdint>

namespace specdec {

// Bytes available without swapping; 0 if unknown.
std::uint64_t available_memory();

}  // namespace specdec
