#include "speculative/suffix_index.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

constexpr int first_edge_bits = 10;

}  // namespace

SuffixIndex::SuffixIndex() { clear(); }

void SuffixIndex::clear() {
  text_.clear();
  free_.clear();
  nodes_.assign(1, {none, -1, 0, 0, none, none, none, none});
  edges_.assign(std::size_t{1} << first_edge_bits, 0);
  edge_shift_ = 64 - first_edge_bits;
  active_.assign(1, root);
}

// ---- Edges

std::size_t SuffixIndex::place_of(Id parent, Token token) const {
  const auto key =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(parent)) << 32 | static_cast<std::uint32_t>(token);
  const std::uint64_t mixed = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15ull;
  return static_cast<std::size_t>((mixed ^ (mixed >> 32)) * 0xD1B54A32D192ED03ull >> edge_shift_);
}

SuffixIndex::Id SuffixIndex::child(Id parent, Token token) const {
  const std::size_t mask = edges_.size() - 1;
  for (std::size_t place = place_of(parent, token);; place = (place + 1) & mask) {
    const Id id = edges_[place];
    if (id == 0) return none;
    if (node(id).parent == parent && node(id).token == token) return id;
  }
}

void SuffixIndex::add_edge(Id id) {
  const std::size_t mask = edges_.size() - 1;
  std::size_t place = place_of(node(id).parent, node(id).token);
  while (edges_[place] != 0) place = (place + 1) & mask;
  edges_[place] = id;
}

// Moves later entries of the run back into the gap, so that no probe ends early.
void SuffixIndex::remove_edge(Id id) {
  const std::size_t mask = edges_.size() - 1;
  std::size_t gap = place_of(node(id).parent, node(id).token);
  while (edges_[gap] != id) gap = (gap + 1) & mask;
  for (std::size_t place = (gap + 1) & mask; edges_[place] != 0; place = (place + 1) & mask) {
    const std::size_t home = place_of(node(edges_[place]).parent, node(edges_[place]).token);
    if (((place - home) & mask) < ((place - gap) & mask)) continue;  // its home is after the gap
    edges_[gap] = edges_[place];
    gap = place;
  }
  edges_[gap] = 0;
}

void SuffixIndex::grow_edges() {
  std::vector<Id> old(edges_.size() * 2, 0);
  old.swap(edges_);
  --edge_shift_;
  for (const Id id : old) {
    if (id != 0) add_edge(id);
  }
}

// ---- Nodes

bool SuffixIndex::is_better(Id a, Id b) const {
  return std::pair(node(a).count, node(a).position) > std::pair(node(b).count, node(b).position);
}

SuffixIndex::Id SuffixIndex::add_child(Id parent, Token token, int position) {
  if (2 * num_nodes() > edges_.size()) grow_edges();
  const Node created = {parent, token, 1, position, none, none, node(parent).first_child, none};
  Id id = 0;
  if (free_.empty()) {
    id = static_cast<Id>(nodes_.size());
    nodes_.push_back(created);
  } else {
    id = free_.back();
    free_.pop_back();
    node(id) = created;
  }
  if (created.next != none) node(created.next).previous = id;
  node(parent).first_child = id;
  add_edge(id);
  return id;
}

void SuffixIndex::remove(Id id) {
  remove_edge(id);
  const Node& n = node(id);
  (n.previous == none ? node(n.parent).first_child : node(n.previous).next) = n.next;
  if (n.next != none) node(n.next).previous = n.previous;
  free_.push_back(id);
}

// ---- Changes of the text

// What failed halfway is not an index of any text; an empty one is filled again by whoever has the text.
template <class Change>
void SuffixIndex::or_clear(Change&& change) {
  try {
    change();
  } catch (...) {
    clear();
    throw;
  }
}

void SuffixIndex::push(Token token) {
  or_clear([&] { add(token); });
}

// Every suffix of the text that occurs twice or more (or is empty) gets the token as a continuation. These are the
// first entries of active_, because a longer suffix does not occur more often.
void SuffixIndex::add(Token token) {
  text_.push_back(token);
  Id suffix = root;  // of the text before `token`, `depth` tokens long
  int depth = 0;
  for (bool more = true; more && depth < max_depth && (depth == 0 || node(suffix).count >= 2); ++depth) {
    const int start = length() - 1 - depth;
    Id next = child(suffix, token);
    if (next == none) {
      next = add_child(suffix, token, start);
    } else if (node(next).position !=
               start) {  // otherwise it was added below for this occurrence, which overlaps the previous one
      if (++node(next).count == 2 && depth + 1 < max_depth) {
        const int first = node(next).position;
        const Id continuation = add_child(next, text(first + depth + 1), first);
        node(next).best = continuation;
      }
    }
    if (node(suffix).best == none || is_better(next, node(suffix).best)) node(suffix).best = next;
    more = idx(depth) + 1 < active_.size();
    if (more) suffix = std::exchange(active_[idx(depth) + 1], next);
    else active_.push_back(next);
  }
  active_.resize(idx(depth) + 1);
}

// Removes the occurrences that start at `start` and are longer than kept_depth. Later starts must be removed first, so
// that the occurrences that a node keeps include its first.
void SuffixIndex::remove_occurrence(int start, int kept_depth) {
  Id path[max_depth + 1] = {root};
  int depth = 0;
  while (depth < max_depth && start + depth < length()) {
    const Id next = child(path[depth], text(start + depth));
    if (next == none) break;
    path[++depth] = next;
  }
  for (; depth > kept_depth; --depth) {
    const Id id = path[depth];
    const Id parent = node(id).parent;
    const int left = --node(id).count;
    if (left == 1 && node(id).first_child != none) {  // it becomes a leaf
      remove(node(id).first_child);
      node(id).best = none;
    }
    if (left == 0) remove(id);
    if (node(parent).best != id) continue;
    Id best = node(parent).first_child;
    for (Id other = best; other != none; other = node(other).next) {
      if (is_better(other, best)) best = other;
    }
    node(parent).best = best;
  }
}

void SuffixIndex::truncate(int new_length) {
  if (new_length >= length()) return;
  if (new_length < length() / 4) {  // faster than removing the rest
    std::vector<Token> kept(text_.begin(), text_.begin() + new_length);
    clear();
    for (const Token token : kept) push(token);
    return;
  }
  or_clear([&] {
    for (int start = length() - 1; start >= 0 && start > new_length - max_depth; --start) {
      remove_occurrence(start, std::max(0, new_length - start));
    }
    text_.resize(idx(new_length));
    find_active();
  });
}

void SuffixIndex::find_active() {
  active_.assign(1, root);
  for (int depth = 1; depth <= std::min(max_depth, length()); ++depth) {
    int reached = 0;
    const Id id = descend(text_.data() + length() - depth, depth, &reached);
    if (reached < depth) return;
    active_.push_back(id);
  }
}

// ---- Queries

// Follows the tokens from the root along nodes. Returns the last one, and its depth.
SuffixIndex::Id SuffixIndex::descend(const Token* tokens, int count, int* depth) const {
  Id id = root;
  for (*depth = 0; *depth < count; ++*depth) {
    const Id next = child(id, tokens[*depth]);
    if (next == none) break;
    id = next;
  }
  return id;
}

bool SuffixIndex::occurs_with_continuation(const Token* tokens, int count, Id* found) const {
  int depth = 0;
  *found = descend(tokens, count, &depth);
  const Node& n = node(*found);
  if (depth == count && n.count >= 2) return true;
  if (*found == root || n.count >= 2 || n.position + count >= length()) return false;
  return std::equal(tokens + depth, tokens + count, text_.begin() + n.position + depth);
}

// A binary search: if a suffix occurs with a continuation, so do shorter ones.
SuffixIndex::Match SuffixIndex::find(const Token* tokens, int count) const {
  Match match;
  for (int above = std::min(count, max_depth - 1) + 1; above - match.length > 1;) {
    const int middle = (match.length + above) / 2;
    Id found = root;
    if (occurs_with_continuation(tokens + count - middle, middle, &found)) match = {found, 0, middle};
    else above = middle;
  }
  return match;
}

SuffixIndex::Continuation SuffixIndex::best(const Match& match) const {
  const Node& n = node(match.first);
  if (n.count == 1) {
    if (n.position + match.length >= length()) return {};
    return {text(n.position + match.length), 1, 1, {match.first, 0, match.length + 1}};
  }
  if (n.best == none || match.length == 0) return {};
  const auto depth = idx(match.length);
  const bool is_suffix = depth < active_.size() && active_[depth] == match.first;  // nothing follows that occurrence
  return {node(n.best).token, node(n.best).count, n.count - (is_suffix ? 1 : 0), {n.best, 0, match.length + 1}};
}

std::size_t SuffixIndex::bytes() const {
  return text_.capacity() * sizeof(Token) + nodes_.capacity() * sizeof(Node) +
         (free_.capacity() + edges_.capacity()) * sizeof(Id);
}

}  // namespace specdec
