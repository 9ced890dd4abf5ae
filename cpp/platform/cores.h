// The processor cores that this process may use.
#pragma once

namespace specdec {

// Physical cores that this process may run on (on Apple's processors the performance cores): more threads than that compete
// with each other.
int default_threads();

}  // namespace specdec
