// Progress of loading models.
#pragma once

#include <functional>
#include <string>

namespace specdec {

struct LoadProgress {
  std::string step;  // the current step: "reading target.gguf"
  double share;      // the done part of this step, 0 .. 1
};

// Called often on the loading thread, and at the end of each step with share 1. Must not throw. If it returns false,
// loading throws Cancelled.
using LoadProgressCallback = std::function<bool(const LoadProgress&)>;

}  // namespace specdec
