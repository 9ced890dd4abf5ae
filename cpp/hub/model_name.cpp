#include "hub/model_name.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace specdec {
namespace {

constexpr const char* scheme = "hf:";
constexpr const char* extension = ".gguf";

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_alphanumeric(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

// Letters, digits and _, with single . and - between them.
bool is_repository_part(const std::string& text) {
  bool after_sign = true;
  for (const char letter : text) {
    const bool is_sign = letter == '.' || letter == '-';
    if (!is_sign && !is_alphanumeric(letter) && letter != '_') return false;
    if (is_sign && after_sign) return false;
    after_sign = is_sign;
  }
  return !text.empty() && !after_sign && text.size() <= 96;
}

std::string upper(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool has_any(const std::string& name, const std::vector<const char*>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return name.find(word) != std::string::npos; });
}

bool is_model_or_head(const std::string& path) {
  return ends_with(path, extension) && !has_any(base_name(path), {"mmproj", "imatrix"});
}

bool is_model(const std::string& path) {
  return is_model_or_head(path) && !has_any(base_name(path), {"mtp-", "eagle3-", "dflash-", "dspark-"});
}

bool is_projector(const std::string& path) {
  return ends_with(path, extension) && has_any(base_name(path), {"mmproj"});
}

// "model-00001-of-00003.gguf"
struct Part {
  std::string prefix;
  int index = 1, count = 1;
};

Part part_of(const std::string& path) {
  constexpr std::size_t length = 15;  // the length of "-00001-of-00003"
  Part part{path.substr(0, path.size() - std::string(extension).size())};
  if (part.prefix.size() <= length) return part;
  const std::string end = part.prefix.substr(part.prefix.size() - length);
  int index = 0, count = 0, used = 0;
  if (std::sscanf(end.c_str(), "-%5d-of-%5d%n", &index, &count, &used) != 2 || used != static_cast<int>(length))
    return part;
  if (index < 1 || count < index) return part;
  return {part.prefix.substr(0, part.prefix.size() - length), index, count};
}

std::string list_of(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

}  // namespace

bool has_quant(const std::string& path, const std::string& quant) {
  const std::string text = upper(path), wanted = upper(quant);
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    const bool starts = at == 0 || !is_alphanumeric(text[at - 1]);
    const std::size_t end = at + wanted.size();
    if (starts && end < text.size() && (text[end] == '.' || text[end] == '-')) return true;
  }
  return false;
}

bool are_parts_of_one(const std::string& path, const std::string& other) {
  const Part one = part_of(path), two = part_of(other);
  return ends_with(other, extension) && one.prefix == two.prefix && one.count == two.count;
}

bool is_hub_name(const std::string& text) { return text.compare(0, 3, scheme) == 0; }

HubName parse_hub_name(const std::string& text) {
  const std::string rest = is_hub_name(text) ? text.substr(3) : text;
  const auto fail = [&] {
    throw std::invalid_argument(
        "\"" + text + "\" is not a model's name; it must be hf:OWNER/REPOSITORY, hf:OWNER/REPOSITORY:QUANT or " +
        "hf:OWNER/REPOSITORY/FILE.gguf");
  };
  HubName name;
  const std::size_t first = rest.find('/');
  if (first == std::string::npos) fail();
  std::size_t end = rest.find('/', first + 1);
  if (end != std::string::npos) {
    name.file = rest.substr(end + 1);
    const std::string inside = "/" + name.file + "/";
    if (!ends_with(name.file, extension) || inside.find("/../") != std::string::npos ||
        inside.find("//") != std::string::npos)
      fail();
  } else if (end = rest.find(':'); end != std::string::npos) {
    name.quant = rest.substr(end + 1);
    if (name.quant.empty()) fail();
    for (const char letter : name.quant) {
      if (!is_alphanumeric(letter) && letter != '_' && letter != '-' && letter != '.') fail();
    }
  }
  name.repository = rest.substr(0, end);
  if (!is_repository_part(rest.substr(0, first)) || !is_repository_part(name.repository.substr(first + 1))) fail();
  return name;
}

std::string HubName::text() const {
  return scheme + repository + (file.empty() ? "" : "/" + file) + (quant.empty() ? "" : ":" + quant);
}

namespace {

std::vector<std::string> those_among(std::vector<std::string> paths, bool (*is_one)(const std::string& path)) {
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (is_one(path) && part_of(path).index == 1) found.push_back(path);
  }
  return found;
}

}  // namespace

std::vector<std::string> models_among(std::vector<std::string> paths) {
  return those_among(std::move(paths), is_model);
}

std::vector<std::string> models_and_heads_among(std::vector<std::string> paths) {
  return those_among(std::move(paths), is_model_or_head);
}

std::vector<std::string> projectors_among(std::vector<std::string> paths) {
  std::vector<std::string> found = those_among(std::move(paths), is_projector);
  const auto rank = [](const std::string& path) {
    constexpr const char* best_first[] = {"F16", "BF16", "Q8_0", "F32"};
    return std::find_if(std::begin(best_first), std::end(best_first),
                        [&](const char* quant) { return has_quant(path, quant); }) -
           std::begin(best_first);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  return found;
}

std::vector<std::string> choose_model_files(const HubName& name, std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  const std::vector<std::string> models = models_among(paths);
  if (models.empty() && name.file.empty()) {
    throw ModelError(
        name.repository +
        " has no GGUF files; look for a repository with -GGUF in its name, or convert the model (docs/models.md)");
  }
  std::string chosen;
  if (!name.file.empty()) {
    if (std::find(paths.begin(), paths.end(), name.file) != paths.end()) chosen = name.file;
  } else {
    const std::vector<std::string> quants =
        name.quant.empty() ? std::vector<std::string>{"Q4_K_M", "Q8_0"} : std::vector<std::string>{name.quant};
    for (const std::string& quant : quants) {
      const auto found =
          std::find_if(models.begin(), models.end(), [&](const std::string& path) { return has_quant(path, quant); });
      if (chosen.empty() && found != models.end()) chosen = *found;
    }
    if (chosen.empty() && name.quant.empty()) chosen = models.front();
  }
  if (chosen.empty()) {
    throw ModelError(name.repository + " has no file " +
                     (name.file.empty() ? "with " + name.quant + " in its name" : name.file) + "; it has " +
                     list_of(models));
  }
  const Part first = part_of(chosen);
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!ends_with(path, extension)) continue;
    const Part part = part_of(path);
    if (part.prefix == first.prefix && part.count == first.count) files.push_back(path);
  }
  if (files.size() != idx(first.count)) {
    throw ModelError(name.repository + " has " + std::to_string(files.size()) + " of the " +
                     std::to_string(first.count) + " parts of " + chosen + "; choose another file");
  }
  return files;
}

}  // namespace specdec
