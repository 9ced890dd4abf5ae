// Downloads models from the Hugging Face hub into its cache (hub/cache.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/model_name.h"

namespace specdec {

struct HubProgress {
  std::string file;
  std::uint64_t done, total;  // bytes of this file; what was there before counts as done
};

struct HubCallbacks {
  std::function<bool(const HubProgress&)> progress;       // called often; false: ends with Cancelled
  std::function<void(const std::string& sentence)> note;  // says what is waited for or done instead
};

// Downloads a model unless the cache has it, and returns the path of its file (of a split model, the first part).
// Interrupted downloads continue where they ended; the result is compared with the size and the SHA-256 that the hub
// states. If several processes ask for the same file, one downloads it and the others wait. Throws Error, Cancelled;
// ModelError if the repository lacks such a file.
std::string download_model(const HubName& name, const HubCallbacks& callbacks, bool with_projector = false);

}  // namespace specdec
