// The models and drafting heads that the hub's cache on this machine holds (hub/cache.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hub/model_name.h"

namespace specdec {

struct CachedModel {
  HubName name;                              // with its file; of a split model the first part
  std::vector<std::filesystem::path> paths;  // of all parts
  std::uint64_t bytes;                       // of all parts
};

// Complete ones and drafting heads, of the commits that "main" was when it was last asked for; by name.
std::vector<CachedModel> cached_models();

// Those that a name means: with a repository alone all of its models.
std::vector<CachedModel> cached_models(const HubName& name);

// Also the contents, unless another commit of the repository has them, too. Throws Error.
void remove(const CachedModel& model);

}  // namespace specdec
