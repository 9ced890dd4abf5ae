// How far the loading of models has come, for those who watch it.
#pragma once

#include <functional>
#include <string>

namespace specdec {

struct LoadProgress {
  std::string step;  // what is being done: "reading target.gguf"
  double share;      // done of this step, 0 .. 1
};

// Called often, on the thread that loads, and at the end of each step with share 1; it throws nothing. False: loading
// ends with Cancelled.
using LoadProgressCallback = std::function<bool(const LoadProgress&)>;

}  // namespace specdec
