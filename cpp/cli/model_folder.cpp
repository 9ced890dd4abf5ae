#include "cli/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "hub/cache.h"
#include "hub/cached_models.h"
#include "hub/model_name.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> model_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error, ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(ignored)) names.push_back(at->path().filename().string());
  }
  names = models_among(std::move(names));
  const auto is_no_model = [&](const std::string& name) { return !is_model_file((folder / name).string()); };
  names.erase(std::remove_if(names.begin(), names.end(), is_no_model), names.end());
  return names;
}

std::vector<server::KnownModel> models_of_hub() {
  std::vector<server::KnownModel> models;
  for (const CachedModel& cached : cached_models()) {
    const std::string file = fs::path(cached.name.file).replace_extension().generic_string();
    models.push_back({cached.name.repository + "/" + file, cached.paths.front().string()});
  }
  if (!models.empty()) return models;
  throw Error("--models-dir hub: the hub's cache has no model (" + printable(hub_cache().string()) +
              "); `specdec models pull OWNER/REPOSITORY` downloads one; ./hub is a folder of that name");
}

}  // namespace

std::vector<server::KnownModel> models_in(const std::string& folder) {
  if (folder == "hub") return models_of_hub();
  std::map<std::string, std::string> models;
  for (const std::string& file : model_files(folder)) {
    if (file.front() != '.') models.emplace(fs::path(file).stem().string(), (fs::path(folder) / file).string());
  }
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    if (name.front() == '.') continue;
    if (!at->is_directory(ignored)) continue;
    const std::vector<std::string> files = model_files(at->path());
    if (!files.empty()) models.emplace(name, (at->path() / files.front()).string());
  }
  if (error) throw Error("--models-dir " + printable(folder) + ": " + error.message());
  if (models.empty()) throw Error("--models-dir " + printable(folder) + ": there is no model (NAME.gguf) in it");
  std::vector<server::KnownModel> known;
  for (const auto& [name, path] : models) known.push_back({name, path});
  return known;
}

}  // namespace specdec::cli
