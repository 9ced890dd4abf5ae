// Limits the steps and memory of templates that run on this thread.
#pragma once

#include "jinja/limits.h"

namespace specdec {

class Limited {
 public:
  explicit Limited(jinja::limits& limits) { jinja::current_limits = &limits; }
  ~Limited() { jinja::current_limits = nullptr; }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
};

}  // namespace specdec
