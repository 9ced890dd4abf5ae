#include "engine/projector_search.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "hub/model_name.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr const char* remedy = "give the model's projector (--mmproj FILE, mmproj=), or put it beside the model";

std::size_t longest_common_part(const std::string& a, const std::string& b) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t length = 0;
      while (i + length < a.size() && j + length < b.size() && a[i + length] == b[j + length]) ++length;
      longest = std::max(longest, length);
    }
  }
  return longest;
}

}  // namespace

FoundProjector find_projector(const std::string& option, const GgufFile& target) {
  if (option == "none") return {"", std::string("pictures are switched off; ") + remedy, 0};
  if (option != "auto") {
    return {option, "", GgufFile::read(option).file_size};
  }
  std::error_code error;
  const fs::path own = fs::absolute(target.path, error);
  const std::string own_name = own.stem().string();
  const auto width =
      target.integer(target.string("general.architecture").value_or("") + ".embedding_length").value_or(0);
  std::vector<std::string> names;
  for (fs::directory_iterator entry(own.parent_path(), error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  FoundProjector best{"", std::string("this model reads no pictures here: there is no projector; ") + remedy, 0};
  std::tuple<bool, std::size_t> best_fit{};
  for (const std::string& name : projectors_among(names)) {
    try {
      const GgufFile file = GgufFile::read((own.parent_path() / name).string());
      if (!file.boolean("clip.has_vision_encoder").value_or(true)) continue;
      const bool is_as_wide = file.integer("clip.vision.projection_dim").value_or(0) == width;
      const std::tuple fit(is_as_wide, longest_common_part(name, own_name));
      if (!best.path.empty() && fit <= best_fit) continue;
      best = {file.path, "", file.file_size};
      best_fit = fit;
    } catch (const Error&) {  // the first picture tells what is wrong with it
      std::error_code ignored;
      const fs::path path = own.parent_path() / name;
      if (best.path.empty()) best = {path.string(), "", fs::file_size(path, ignored)};
    }
  }
  return best;
}

}  // namespace specdec
