#include "speculative/corpus_index.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace specdec {
namespace {

constexpr Token after_the_end = -2;  // before every token

}  // namespace

CorpusIndex::CorpusIndex(std::vector<Token> text, const std::function<bool(double)>& progress)
    : text_(std::move(text)) {
  // Groups positions by their first token, then sorts each group by the tokens after it.
  order_.resize(text_.size());
  find_starts();
  std::vector<std::int32_t> next = starts_;
  for (std::size_t i = 0; i < text_.size(); ++i) {
    order_[idx(next[idx(text_[i] + 1)]++)] = static_cast<std::int32_t>(i);
  }
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    const auto end = static_cast<std::int32_t>(text_.size());
    for (int depth = 1; depth < max_depth; ++depth) {
      const Token x = a + depth < end ? text_[idx(a + depth)] : after_the_end;
      const Token y = b + depth < end ? text_[idx(b + depth)] : after_the_end;
      if (x != y) return x < y;
      if (x == after_the_end) break;
    }
    return a < b;
  };
  std::size_t told = 0;
  for (std::size_t token = 0; token + 1 < starts_.size(); ++token) {
    std::sort(order_.begin() + starts_[token], order_.begin() + starts_[token + 1], is_before);
    const auto done = idx(starts_[token + 1]);
    if (!progress || done < told + (std::size_t{1} << 16)) continue;
    told = done;
    if (!progress(static_cast<double>(done) / static_cast<double>(text_.size())))
      throw Cancelled("the corpus was not indexed to its end");
  }
}

CorpusIndex::CorpusIndex(std::vector<Token> text, std::vector<std::int32_t> order)
    : text_(std::move(text)), order_(std::move(order)) {
  std::vector<bool> seen(text_.size(), false);
  if (order_.size() != text_.size()) throw std::invalid_argument("the order is not that of the text");
  for (const std::int32_t position : order_) {
    if (position < 0 || idx(position) >= seen.size() || seen[idx(position)])
      throw std::invalid_argument("the order is not that of the text");
    seen[idx(position)] = true;
  }
  find_starts();
}

void CorpusIndex::find_starts() {
  if (std::any_of(text_.begin(), text_.end(), [](Token t) { return t < end_of_document; }))
    throw std::invalid_argument("tokens must not be negative");
  const Token largest = text_.empty() ? 0 : *std::max_element(text_.begin(), text_.end());
  starts_.assign(idx(largest) + 3, 0);
  for (const Token t : text_) ++starts_[idx(t + 1) + 1];
  for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

// The token at `depth` of the string at that place of the order.
Token CorpusIndex::token(std::int32_t place, int depth) const {
  const auto at = idx(order_[idx(place)]) + idx(depth);
  return at < text_.size() ? text_[at] : after_the_end;
}

// Where the string occurs with a token after it. length 0: nowhere.
CorpusIndex::Match CorpusIndex::range(const Token* tokens, int count) const {
  const auto first_token = idx(tokens[0] + 1);
  if (tokens[0] < 0 || first_token + 1 >= starts_.size()) return {};
  // The string there: -1 sorts before, 0 starts with `tokens`, 1 sorts after.
  const auto compare = [&](std::int32_t position) {
    for (int depth = 1; depth < count; ++depth) {
      const auto at = idx(position) + idx(depth);
      const Token there = at < text_.size() ? text_[at] : after_the_end;
      if (there != tokens[depth]) return there < tokens[depth] ? -1 : 1;
    }
    return 0;
  };
  const auto begin = order_.begin() + starts_[first_token], end = order_.begin() + starts_[first_token + 1];
  auto first = std::partition_point(begin, end, [&](std::int32_t position) { return compare(position) < 0; });
  const auto last = std::partition_point(first, end, [&](std::int32_t position) { return compare(position) == 0; });
  // Occurrences at the end of the text or of a document come first.
  while (first != last && token(static_cast<std::int32_t>(first - order_.begin()), count) < 0) ++first;
  if (first == last) return {};
  return {static_cast<std::int32_t>(first - order_.begin()), static_cast<std::int32_t>(last - order_.begin()), count};
}

// A binary search: if a suffix occurs with a continuation, so do shorter ones.
CorpusIndex::Match CorpusIndex::find(const Token* tokens, int count) const {
  Match match;
  for (int above = std::min(count, max_depth - 1) + 1; above - match.length > 1;) {
    const int middle = (match.length + above) / 2;
    const Match found = range(tokens + count - middle, middle);
    if (found.length > 0) match = found;
    else above = middle;
  }
  return match;
}

CorpusIndex::Group CorpusIndex::best_group(const Match& match) const {
  constexpr std::int32_t probes = 32;
  if (token(match.first, match.length) == token(match.end - 1, match.length)) return {match.first, match.end};
  const auto begin = order_.begin();
  const auto group_at = [&](std::int32_t place) {
    const Token wanted = token(place, match.length);
    const auto at = [&](std::int32_t position) {
      const auto next = idx(position + match.length);
      return next < text_.size() ? text_[next] : after_the_end;
    };
    const auto first =
        std::partition_point(begin + match.first, begin + match.end, [&](std::int32_t p) { return at(p) < wanted; });
    const auto end = std::partition_point(first, begin + match.end, [&](std::int32_t p) { return at(p) == wanted; });
    return Group{static_cast<std::int32_t>(first - begin), static_cast<std::int32_t>(end - begin)};
  };
  Group best, group;
  const std::int32_t count = match.end - match.first;
  for (std::int32_t probe = 0; probe < std::min(count, probes); ++probe) {
    const std::int32_t step =
        count <= probes ? probe : static_cast<std::int32_t>(std::int64_t{count} * (2 * probe + 1) / (2 * probes));
    if (match.first + step < group.end) continue;  // still in the previous group
    group = group_at(match.first + step);
    if (group.end - group.first > best.end - best.first) best = group;
  }
  return best;
}

CorpusIndex::Continuation CorpusIndex::best(const Match& match) const {
  if (match.length == 0 || match.length >= max_depth || match.first == match.end) return {};
  const Group group = best_group(match);
  if (group.first == group.end) return {};  // the order is wrong
  const Token next = token(group.first, match.length);
  if (next < 0) return {};
  Match longer = {group.first, group.end, match.length + 1};
  while (longer.first != longer.end && token(longer.first, longer.length) < 0) ++longer.first;
  return {next, group.end - group.first, match.end - match.first, longer};
}

}  // namespace specdec
