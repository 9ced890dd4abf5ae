#include "base/suggestion.h"

#include <algorithm>
#include <cstddef>

namespace specdec {
namespace {

// The number of edits (insert, delete, replace) that turn a into b.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  const std::string bare = word.substr(std::min(word.size(), word.find_first_not_of('-')));
  std::size_t best_distance = std::min<std::size_t>(3, bare.size() / 3 + 1);  // a suggestion must be closer than this
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  const auto has_word = [&](const std::string& candidate) { return candidate.find(bare) != std::string::npos; };
  if (const auto longer = std::find_if(candidates.begin(), candidates.end(), has_word);
      best.empty() && bare.size() > 3 && longer != candidates.end())
    best = *longer;
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace specdec
