// Logits that no distribution can be made of, reported as a failure of their model.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"

namespace specdec {

// Runs body(); logits that no distribution can be made of (NaN, nothing finite) become the error of the model they are from.
template <class Body>
auto reading_logits_of(const char* model, Body&& body) -> decltype(std::forward<Body>(body)()) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::invalid_argument& error) {
    throw ModelError(std::string("the ") + model + " model failed: " + error.what());
  }
}

}  // namespace specdec
