// The three descriptors that every program expects to be open.
#pragma once

namespace specdec {

// Opens /dev/null on those of 0, 1 and 2 that are closed: otherwise the next file opened gets the number, and messages for
// standard error are written into it. First of all in main().
void open_standard_descriptors() noexcept;

}  // namespace specdec
