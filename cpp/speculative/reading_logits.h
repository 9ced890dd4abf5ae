// Reports invalid logits as an error of the model that computed them.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"

namespace specdec {

// Runs body(). Turns std::invalid_argument, thrown for invalid logits (NaN, +inf, none finite), into ModelError.
template <class Body>
auto reading_logits_of(const char* model, Body&& body) -> decltype(std::forward<Body>(body)()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::invalid_argument& error) {
    throw ModelError(std::string("the ") + model + " model failed: " + error.what());
  }
}

}  // namespace specdec
