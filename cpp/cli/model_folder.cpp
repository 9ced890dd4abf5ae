#include "cli/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

bool begins_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

// "-00002-of-00005.gguf": only the first part is opened by name.
bool is_later_part(const std::string& file) {
  const std::size_t of = file.rfind("-of-");
  return of != std::string::npos && of >= 6 && file[of - 6] == '-' && file.compare(of - 5, 5, "00001") != 0;
}

bool is_model(const fs::directory_entry& entry) {
  std::error_code ignored;
  const std::string file = entry.path().filename().string();
  return entry.is_regular_file(ignored) && entry.path().extension() == ".gguf" && !begins_with(file, "mmproj") &&
         !is_later_part(file);
}

std::vector<fs::path> model_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_model(*at)) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<server::KnownModel> models_in(const std::string& folder) {
  std::map<std::string, std::string> models;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    if (name.front() == '.') continue;
    if (is_model(*at)) models.emplace(at->path().stem().string(), at->path().string());
    if (!at->is_directory(ignored)) continue;
    const std::vector<fs::path> files = model_files(at->path());
    if (!files.empty()) models.emplace(name, files.front().string());
  }
  if (error) throw Error("--models-dir " + printable(folder) + ": " + error.message());
  if (models.empty()) throw Error("--models-dir " + printable(folder) + ": there is no model (NAME.gguf) in it");
  std::vector<server::KnownModel> known;
  for (const auto& [name, path] : models) known.push_back({name, path});
  return known;
}

}  // namespace specdec::cli
