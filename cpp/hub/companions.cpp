#include "hub/companions.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>

#include "gguf/gguf_file.h"
#include "hub/draft_gain.h"

namespace specdec {
namespace {

// The lines of companions.txt.
constexpr const char* table =
#include "companions.inc"
    ;

std::set<std::string> words_of(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    const bool is_kept = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.';
    text += is_kept ? static_cast<char>(std::tolower(static_cast<unsigned char>(letter))) : ' ';
  }
  std::istringstream words(text);
  std::set<std::string> result;
  for (std::string word; words >> word;) result.insert(word);
  return result;
}

std::optional<HubName> find(const std::string& name) {
  const std::set<std::string> words = words_of(name);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream parts(line);
    bool fits = true;
    for (std::string word; parts >> word;) {
      if (!is_hub_name(word)) fits = fits && words.count(word) != 0;
      else if (fits) return parse_hub_name(word);
    }
  }
  return std::nullopt;
}

// Draft models may have fewer or more tokens at the end; those in common must be the same.
bool same_tokens(const GgufFile& a, const GgufFile& b) {
  const GgufArray* first = a.array("tokenizer.ggml.tokens");
  const GgufArray* second = b.array("tokenizer.ggml.tokens");
  if (first == nullptr || second == nullptr || a.string("tokenizer.ggml.model") != b.string("tokenizer.ggml.model"))
    return false;
  const std::size_t bytes = std::min(first->bytes.size(), second->bytes.size());
  return first->bytes.compare(0, bytes, second->bytes, 0, bytes) == 0;
}

}  // namespace

std::optional<HubName> companion_of(const std::string& target_path) {
  return companion_of(GgufFile::read(target_path));
}

std::optional<HubName> companion_of(const GgufFile& target) {
  if (const std::optional<std::string> name = target.string("general.name")) {
    if (const std::optional<HubName> companion = find(*name)) return companion;
  }
  return find(std::filesystem::path(target.path).stem().string());
}

std::string objection_to_companion(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target) {
  if (!same_tokens(draft.front(), target.front())) return "it has another vocabulary";
  const double cost = pass_bytes(draft, true) / pass_bytes(target, false);
  const double gain = predicted_gain(cost, usual_acceptance);
  if (gain >= least_gain) return "";
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "%.2f of the target's, which would give %.2f times", cost, gain);
  return std::string("a pass of it takes about ") + numbers + " plain decoding";
}

}  // namespace specdec
