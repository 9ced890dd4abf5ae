// Errors that a caller may want to tell apart. Bad arguments are std::invalid_argument instead.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace specdec {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A model file or a model that cannot be used, or that failed while running.
class ModelError : public Error {
  using Error::Error;
};

// Draft and target do not share a vocabulary.
class VocabularyMismatch : public ModelError {
  using ModelError::ModelError;
};

// The prompt does not fit into the context.
class ContextFull : public Error {
  using Error::Error;
};

// The caller asked to stop while a model was running. Nothing is lost: the generator stays usable.
class Cancelled : public Error {
  using Error::Error;
};

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
