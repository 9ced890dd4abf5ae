// How much memory models may take.
#pragma once

#include <cstdint>

namespace specdec {

// Bytes that can be had without swapping; 0 where the system does not tell.
std::uint64_t available_memory();

}  // namespace specdec
