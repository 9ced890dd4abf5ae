#include "hub/companions.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/format.h"
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

constexpr double largest_share = 0.6;  // of the target's weights: a larger model gains nothing

// The number of weights that a model's name states, as in "Qwen3-0.6B-GGUF" or "SmolLM2-135M"; 0 if it states none.
double weights_in_name(const std::string& name) {
  for (const std::string& word : words_of(name.substr(name.rfind('/') + 1))) {
    char unit = 0, more = 0;
    double number = 0.0;
    if (std::sscanf(word.c_str(), "%lf%c%c", &number, &unit, &more) != 2) continue;
    if (unit == 'b') return 1e9 * number;
    if (unit == 'm') return 1e6 * number;
  }
  return 0.0;
}

std::vector<HubName> find(const std::string& name) {
  const std::set<std::string> words = words_of(name);
  std::vector<HubName> found;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#' || line[0] == '=') continue;
    std::istringstream parts(line);
    bool fits = true;
    for (std::string word; parts >> word;) {
      if (!is_hub_name(word)) fits = fits && words.count(word) != 0;
      else if (fits) found.push_back(parse_hub_name(word));
      if (!found.empty() && found.back().file.empty()) return found;  // a model; one is enough
    }
  }
  return found;
}

// Draft models may have fewer or more tokens at the end; the common ones must be the same.
std::string vocabulary_problem(const GgufFile& draft, const GgufFile& target) {
  const GgufArray* first = draft.array("tokenizer.ggml.tokens");
  const GgufArray* second = target.array("tokenizer.ggml.tokens");
  const auto is_list = [](const GgufArray* tokens) { return tokens != nullptr && tokens->type == GgufType::string; };
  if (!is_list(first) || !is_list(second)) return "it has no vocabulary";
  const std::string kind = draft.string("tokenizer.ggml.model").value_or("none"),
                    other_kind = target.string("tokenizer.ggml.model").value_or("none");
  if (kind != other_kind) return "it has another tokenizer (" + kind + " instead of " + other_kind + ")";
  const std::size_t bytes = std::min(first->bytes.size(), second->bytes.size());
  if (first->bytes.compare(0, bytes, second->bytes, 0, bytes) == 0) return "";
  const std::vector<GgufValue> tokens = first->elements(), others = second->elements();
  std::size_t token = 0;
  while (token < std::min(tokens.size(), others.size()) &&
         std::get<std::string>(tokens[token]) == std::get<std::string>(others[token]))
    ++token;
  return "it has another vocabulary (from token " + std::to_string(token) + " on)";
}

}  // namespace

std::vector<HubName> companions_of(const std::string& target_path) {
  return companions_of(GgufFile::read_parts(target_path));
}

std::vector<HubName> companions_of(const std::vector<GgufFile>& target) {
  const std::string name = target.front().string("general.name").value_or(""),
                    file = std::filesystem::path(target.front().path).stem().string();
  std::vector<HubName> companions = find(name);
  if (companions.empty()) companions = find(file);
  double weights = std::max(weights_in_name(name), weights_in_name(file));
  double found = 0.0;
  for (const GgufFile& part : target) {
    for (const GgufTensor& tensor : part.tensors) found += static_cast<double>(tensor.elements());
  }
  weights = std::max(weights, found);
  const auto is_too_large = [&](const HubName& one) {
    return one.file.empty() && weights_in_name(one.repository) > largest_share * weights;
  };
  companions.erase(std::remove_if(companions.begin(), companions.end(), is_too_large), companions.end());
  return companions;
}

CompanionFit companion_fit(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target) {
  return {vocabulary_problem(draft.front(), target.front()), pass_bytes(draft, true), pass_bytes(target, false)};
}

double CompanionFit::gain(double acceptance) const { return predicted_gain(cost(), acceptance); }

std::string CompanionFit::objection() const {
  if (!vocabulary_problem.empty()) return vocabulary_problem;
  return gain(usual_acceptance) >= least_gain ? "" : prediction();
}

std::string CompanionFit::prediction() const {
  return format("a pass of it takes about %.2f of the target's, which would give %.2f times plain decoding", cost(),
                gain(usual_acceptance));
}

std::vector<std::pair<std::string, HubName>> short_names() {
  std::vector<std::pair<std::string, HubName>> names;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '=') continue;
    std::istringstream parts(line.substr(1));
    std::string name, model;
    parts >> name >> model;
    names.emplace_back(name, parse_hub_name(model));
  }
  return names;
}

std::optional<HubName> short_name(const std::string& text) {
  const std::size_t colon = text.find(':');
  for (auto& [name, model] : short_names()) {
    if (name != text.substr(0, colon)) continue;
    return colon == std::string::npos ? model : parse_hub_name(model.repository + text.substr(colon));
  }
  return std::nullopt;
}

}  // namespace specdec
