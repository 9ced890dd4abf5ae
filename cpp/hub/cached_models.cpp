#include "hub/cached_models.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "gguf/gguf_file.h"
#include "gguf/model_checks.h"
#include "hub/cache.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder_prefix = "models--";

// Parses "models--owner--name"; neither part contains "--".
std::optional<std::string> repository_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::size_t start = std::string(folder_prefix).size(), end = name.find("--", start);
  if (name.compare(0, start, folder_prefix) != 0 || end == std::string::npos) return std::nullopt;
  return name.substr(start, end - start) + "/" + name.substr(end + 2);
}

void add_models_of(const std::string& repository, std::vector<CachedModel>& all) {
  const CachedRepository cache(repository);
  const std::optional<std::string> commit = cache.main_commit();
  if (!commit) return;
  const std::vector<std::string> paths = cache.paths(*commit);
  for (const std::string& first : models_and_heads_among(paths)) {
    CachedModel model{{repository, "", first}, {}, 0};
    try {
      for (const std::string& path : choose_model_files(model.name, paths)) {
        model.paths.push_back(cache.snapshot(*commit) / path);
        model.bytes += fs::file_size(model.paths.back());
      }
    } catch (const ModelError&) {  // parts are missing
      continue;
    } catch (const fs::filesystem_error&) {  // removed meanwhile
      continue;
    }
    all.push_back(std::move(model));
  }
}

bool is_linked(const fs::path& blob, const fs::path& snapshots) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(snapshots, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (fs::equivalent(entry->path(), blob, ignored)) return true;
  }
  return false;
}

// Removes the folder, then the folders above it, up to `last`, as long as they are empty.
void remove_empty(fs::path folder, const fs::path& last) {
  std::error_code error;
  while (fs::is_empty(folder, error) && !error && fs::remove(folder, error) && folder != last)
    folder = folder.parent_path();
}

}  // namespace

bool is_model_file(const std::string& path) {
  try {
    return kind_beside_a_model(GgufFile::read(path)).empty();
  } catch (const Error&) {
    return true;
  }
}

std::vector<CachedModel> cached_models() {
  std::vector<std::string> repositories;
  std::error_code error;
  for (fs::directory_iterator entry(hub_cache(), error), end; !error && entry != end; entry.increment(error)) {
    if (const std::optional<std::string> repository = repository_of(entry->path())) repositories.push_back(*repository);
  }
  std::sort(repositories.begin(), repositories.end());
  std::vector<CachedModel> all;
  for (const std::string& repository : repositories) add_models_of(repository, all);
  const auto is_no_model = [](const CachedModel& one) { return !is_model_file(one.paths.front().string()); };
  all.erase(std::remove_if(all.begin(), all.end(), is_no_model), all.end());
  return all;
}

std::vector<CachedModel> cached_models(const HubName& name) {
  std::vector<CachedModel> all;
  add_models_of(name.repository, all);
  const auto is_other = [&](const CachedModel& model) {
    if (!name.file.empty()) return !are_parts_of_one(model.name.file, name.file);
    return !name.quant.empty() && !has_quant(model.name.file, name.quant);
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_other), all.end());
  return all;
}

void remove(const CachedModel& model) {
  const fs::path repository = CachedRepository(model.name.repository).folder();
  for (const fs::path& path : model.paths) {
    std::error_code error;
    const fs::path blob = fs::canonical(path, error);
    if (error || !fs::remove(path, error) || error)
      throw Error(path.string() + ": cannot be removed: " + error.message());
    const bool is_own = blob.parent_path().filename() == "blobs";
    if (is_own && !is_linked(blob, repository / "snapshots")) fs::remove(blob, error);
    if (error) throw Error(blob.string() + ": cannot be removed: " + error.message());
    remove_empty(path.parent_path(), repository / "snapshots");
  }
  remove_empty(repository / "blobs", repository / "blobs");
  std::error_code ignored;
  const bool is_in_use = fs::exists(repository / "blobs", ignored) || fs::exists(repository / "snapshots", ignored);
  if (!is_in_use) fs::remove_all(repository, ignored);
}

}  // namespace specdec
