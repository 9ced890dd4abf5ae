// The exception types of this library. Bad arguments are std::invalid_argument instead.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

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
struct ContextFull : public Error {
  ContextFull(const std::string& message, std::size_t prompt_tokens, int context_tokens)
      : Error(message), num_tokens(prompt_tokens), n_ctx(context_tokens) {}

  std::size_t num_tokens;  // of the prompt, or of its beginning if it is too long to tokenize completely
  int n_ctx;
};

// More requests run and wait than are allowed.
class QueueFull : public Error {
  using Error::Error;
};

// The caller asked to stop while a model was running. The generator stays usable.
class Cancelled : public Error {
  using Error::Error;
};

}  // namespace specdec
