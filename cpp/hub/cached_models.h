// The models and drafting heads that the hub's cache on this machine holds (hub/cache.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hub/model_name.h"

namespace specdec {

struct CachedModel {
  HubName name;                              // includes the file: of a split model, the first part
  std::vector<std::filesystem::path> paths;  // of all parts
  std::uint64_t bytes;                       // of all parts
};

// False for GGUF files that belong to a model: adapters, projectors, importance matrices. Damaged models are models.
bool is_model_file(const std::string& path);

// Complete models and drafting heads, sorted by name, of the commit that "main" was when each repository was last asked
// for.
std::vector<CachedModel> cached_models();

// The models that a name means; the name of a repository means all of its models
// (and files that belong to one).
std::vector<CachedModel> cached_models(const HubName& name);

// Also removes the contents, unless another commit of the repository has them, too. Throws Error.
void remove(const CachedModel& model);

}  // namespace specdec
