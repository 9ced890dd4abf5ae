// Models of the Hugging Face hub, downloaded into its cache (hub/cache.h).
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
  std::function<void(const std::string& sentence)> note;  // of what is waited for or done instead
};

// The path of a model's file (the first part of a split one), which is downloaded unless the cache has it. Interrupted
// downloads go on where they ended; what was received is compared with the size and the SHA-256 that the hub states.
// Several processes may ask for the same file: one downloads it, the others wait. Throws Error, Cancelled; ModelError
// where the repository lacks such a file.
std::string download_model(const HubName& name, const HubCallbacks& callbacks);

}  // namespace specdec
