// The processor cores that this process may use.
#pragma once

namespace specdec {

// Number of physical cores that this process may run on (on Apple's processors, performance cores), and no more than its
// container's CPU quota. More threads than this would compete with each other.
int default_threads();

}  // namespace specdec
