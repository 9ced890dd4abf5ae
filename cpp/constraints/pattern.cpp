#include "constraints/pattern.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "base/utf8.h"

namespace specdec {
namespace {

using Kind = PatternNode::Kind;
using CharacterRange = CharacterSet::Range;

constexpr std::size_t max_automaton_nodes = 50'000;  // of the nondeterministic automaton
constexpr std::size_t max_states = 4096;             // of the deterministic one
constexpr std::size_t max_work = 4'000'000;          // visits of nodes, pairs of states and classes

[[noreturn]] void fail_too_large() { throw PatternError("needs too many states; use smaller counts", true); }

// Thompson's nondeterministic automaton, with the anchors as edges that are open only at a border of the text.
struct Nodes {
  enum class Type : unsigned char { fork, begin, end, characters, accept };
  struct Node {
    Type type;
    int set = -1;               // characters: which
    int next = -1, other = -1;  // other: fork only
  };
  std::vector<Node> nodes;
  std::vector<std::vector<CharacterRange>> sets;
  std::map<std::vector<CharacterRange>, int> numbers;  // of the sets

  int add(Type type, int next = -1, int other = -1) {
    if (nodes.size() >= max_automaton_nodes) fail_too_large();
    nodes.push_back({type, -1, next, other});
    return static_cast<int>(nodes.size()) - 1;
  }

  // The start of an automaton that goes on to `next`.
  int add(const PatternNode& node, int next) {
    switch (node.kind) {
      case Kind::begin:
        return add(Type::begin, next);
      case Kind::end:
        return add(Type::end, next);
      case Kind::characters: {
        std::vector<CharacterRange> ranges = node.characters.ranges();
        const auto [found, is_new] = numbers.try_emplace(ranges, static_cast<int>(sets.size()));
        if (is_new) sets.push_back(std::move(ranges));
        const int added = add(Type::characters, next);
        nodes[idx(added)].set = found->second;
        return added;
      }
      case Kind::sequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) next = add(*part, next);
        return next;
      case Kind::choice: {
        int start = add(node.parts.back(), next);
        for (auto part = node.parts.rbegin() + 1; part != node.parts.rend(); ++part)
          start = add(Type::fork, add(*part, next), start);
        return start;
      }
      case Kind::repeat:
        return add_repeat(node, next);
    }
    return next;
  }

  int add_repeat(const PatternNode& node, int next) {
    const PatternNode& part = node.parts.front();
    if (node.most == PatternNode::no_limit) {
      const int loop = add(Type::fork, -1, next);
      const int body = add(part, loop);
      nodes[idx(loop)].next = body;
      next = loop;
    } else {
      const int end = next;
      for (int i = node.least; i < node.most; ++i) next = add(Type::fork, add(part, next), end);
    }
    for (int i = 0; i < node.least; ++i) {
      const std::size_t before = nodes.size();
      next = add(part, next);
      if (nodes.size() == before) break;  // the part is empty
    }
    return next;
  }
};

// Divides all characters into classes that the sets do not tell apart.
struct Classes {
  std::vector<CharacterRange> ranges;  // in order, all characters
  std::vector<int> of_range;
  std::vector<std::vector<int>> members;  // by set: its classes
  int number = 0;

  explicit Classes(const std::vector<std::vector<CharacterRange>>& sets) {
    std::vector<char32_t> starts = {0, 0xD800, 0xE000};
    for (const auto& set : sets) {
      for (const CharacterRange& range : set) {
        starts.push_back(range.first);
        if (range.last < last_character) starts.push_back(range.last + 1);
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    if (starts.size() * (sets.size() + 1) > max_work) fail_too_large();
    std::vector<std::vector<int>> sets_of(starts.size());
    for (std::size_t set = 0; set < sets.size(); ++set) {
      for (const CharacterRange& range : sets[set]) {
        auto at = std::lower_bound(starts.begin(), starts.end(), range.first) - starts.begin();
        for (; idx(at) < starts.size() && starts[idx(at)] <= range.last; ++at)
          sets_of[idx(at)].push_back(static_cast<int>(set));
      }
    }
    std::map<std::vector<int>, int> numbers;
    members.resize(sets.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (starts[i] == 0xD800) continue;
      const auto [found, is_new] = numbers.try_emplace(sets_of[i], number);
      if (is_new) {
        for (const int set : sets_of[i]) members[idx(set)].push_back(number);
        ++number;
      }
      ranges.push_back({starts[i], i + 1 < starts.size() ? starts[i + 1] - 1 : last_character});
      of_range.push_back(found->second);
    }
  }
};

// Adds the transitions of a state, given its target by class, as edges of ranges.
template <class Edge>
std::vector<Edge> edges_of(const Classes& classes, const std::vector<int>& target_of) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < classes.ranges.size(); ++i) {
    const int target = target_of[idx(classes.of_range[i])];
    if (target < 0) continue;
    const CharacterRange& range = classes.ranges[i];
    if (!edges.empty() && edges.back().target == target && edges.back().last + 1 == range.first)
      edges.back().last = range.last;
    else edges.push_back({range.first, range.last, target});
  }
  return edges;
}

// The nodes that can be reached without a character.
class Closure {
 public:
  explicit Closure(const Nodes& nodes) : nodes_(nodes), seen_(nodes.nodes.size()) {}

  void start(bool is_at_begin, bool is_at_end) {
    is_at_begin_ = is_at_begin;
    is_at_end_ = is_at_end;
    found_.clear();
    ++round_;
  }
  void add(int start) {
    stack_.push_back(start);
    while (!stack_.empty()) {
      const int at = stack_.back();
      stack_.pop_back();
      if (seen_[idx(at)] == round_) continue;
      seen_[idx(at)] = round_;
      if (++work_ > max_work) fail_too_large();
      const Nodes::Node& node = nodes_.nodes[idx(at)];
      using Type = Nodes::Type;
      const bool is_open = node.type == Type::fork || (node.type == Type::begin && is_at_begin_) ||
                           (node.type == Type::end && is_at_end_);
      if (is_open) {
        stack_.push_back(node.next);
        if (node.other >= 0) stack_.push_back(node.other);
      }
      if (node.type == Type::characters || node.type == Type::accept || node.type == Type::end) found_.push_back(at);
    }
  }
  // In order.
  const std::vector<int>& found() {
    std::sort(found_.begin(), found_.end());
    return found_;
  }
  bool has(Nodes::Type type) const {
    return std::any_of(found_.begin(), found_.end(), [&](int at) { return nodes_.nodes[idx(at)].type == type; });
  }

 private:
  const Nodes& nodes_;
  std::vector<int> seen_, stack_, found_;
  int round_ = 0;
  bool is_at_begin_ = false, is_at_end_ = false;
  std::size_t work_ = 0;
};

// UTF-8 and JSON's escapes: the sequences of ranges of bytes that write the characters of a range.
using Sequence = std::vector<std::pair<unsigned char, unsigned char>>;

void add_utf8(char32_t first, char32_t last, std::vector<Sequence>& out) {
  constexpr char32_t ends[] = {0x7F, 0x7FF, 0xFFFF, last_character};
  for (const char32_t end : ends) {  // of one length
    if (first <= end && last > end) {
      add_utf8(first, end, out);
      add_utf8(end + 1, last, out);
      return;
    }
  }
  const int more = last <= 0x7F ? 0 : last <= 0x7FF ? 1 : last <= 0xFFFF ? 2 : 3;
  for (int i = 1; i <= more; ++i) {  // of a full range of the last i bytes, or of one start
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add_utf8(first, first | mask, out);
      add_utf8((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      add_utf8(first, (last & ~mask) - 1, out);
      add_utf8(last & ~mask, last, out);
      return;
    }
  }
  constexpr char32_t leads[] = {0, 0xC0, 0xE0, 0xF0};
  Sequence sequence;
  for (int i = more; i >= 0; --i) {
    const char32_t lead = i == more ? leads[more] : 0x80, mask = i == more ? 0xFF : 0x3F;
    const auto byte = [&](char32_t c) { return static_cast<unsigned char>(lead | ((c >> (6 * i)) & mask)); };
    sequence.emplace_back(byte(first), byte(last));
  }
  out.push_back(std::move(sequence));
}

void add_json(char32_t first, char32_t last, std::vector<Sequence>& out) {
  constexpr const char* hex = "0123456789abcdef";
  for (char32_t c = first; c <= std::min<char32_t>(last, '\\'); ++c) {
    const bool is_raw = c >= 0x20 && c != '"' && c != '\\';
    if (is_raw) continue;
    std::string escape;
    switch (c) {
      case '\b':
        escape = "\\b";
        break;
      case '\t':
        escape = "\\t";
        break;
      case '\n':
        escape = "\\n";
        break;
      case '\f':
        escape = "\\f";
        break;
      case '\r':
        escape = "\\r";
        break;
      case '"':
        escape = "\\\"";
        break;
      case '\\':
        escape = "\\\\";
        break;
      default:
        escape = std::string("\\u00") + hex[c >> 4] + hex[c & 15];
    }
    Sequence sequence;
    for (const char byte : escape) sequence.emplace_back(byte, byte);
    out.push_back(std::move(sequence));
  }
  constexpr CharacterRange raw[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, last_character}};
  for (const CharacterRange& range : raw) {
    const char32_t low = std::max(first, range.first), high = std::min(last, range.last);
    if (low <= high) add_utf8(low, high, out);
  }
}

// Turns edges over characters into states over bytes. Equal ends of sequences share their states.
class ByteStates {
 public:
  struct Way {
    Sequence bytes;
    int target;
    bool operator<(const Way& other) const { return std::tie(bytes, target) < std::tie(other.bytes, other.target); }
  };

  explicit ByteStates(std::size_t num_states) { automaton.states.resize(num_states); }

  std::vector<ByteAutomaton::Edge> edges(std::vector<Way> ways) {
    std::sort(ways.begin(), ways.end());
    std::vector<ByteAutomaton::Edge> out;
    for (std::size_t i = 0; i < ways.size();) {
      const auto [first, last] = ways[i].bytes.front();
      std::vector<Way> rest;
      int target = ways[i].target;
      for (; i < ways.size() && ways[i].bytes.front() == std::pair(first, last); ++i) {
        if (ways[i].bytes.size() > 1)
          rest.push_back({{ways[i].bytes.begin() + 1, ways[i].bytes.end()}, ways[i].target});
      }
      if (!rest.empty()) target = state(std::move(rest));
      if (!out.empty() && out.back().target == target && out.back().last + 1 == first) out.back().last = last;
      else out.push_back({first, last, target});
    }
    return out;
  }

  ByteAutomaton automaton;

 private:
  int state(std::vector<Way> ways) {
    const auto found = states_.find(ways);
    if (found != states_.end()) return found->second;
    const auto made = static_cast<int>(automaton.states.size());
    automaton.states.emplace_back();
    states_.emplace(ways, made);
    automaton.states[idx(made)].edges = edges(std::move(ways));
    return made;
  }

  std::map<std::vector<Way>, int> states_;
};

}  // namespace

int ByteAutomaton::next(int state, unsigned char byte) const {
  for (const Edge& edge : states[idx(state)].edges) {
    if (byte <= edge.last) return byte >= edge.first ? edge.target : -1;
  }
  return -1;
}

Pattern::Pattern(const std::string& regex, Match match) {
  using Type = Nodes::Type;
  Nodes nodes;
  const int start = nodes.add(parse_pattern(regex), nodes.add(Type::accept));
  const bool is_search = match == Match::search;
  const Classes classes(nodes.sets);

  Closure closure(nodes);
  std::map<std::vector<int>, int> numbers;  // of the states, by their nodes; the start's has one more: -1
  std::vector<std::vector<int>> found;
  std::size_t work = 0;
  // The state of the nodes in `closure`.
  const auto number_of = [&](bool is_at_begin) {
    std::vector<int> key = closure.found();
    bool accepts = closure.has(Type::accept);
    if (accepts && is_search) key = {-2};  // whatever follows
    else if (is_at_begin) key.push_back(-1);
    if (key.empty()) return -1;
    const auto [entry, is_new] = numbers.try_emplace(key, static_cast<int>(found.size()));
    if (!is_new) return entry->second;
    work += key.size();
    if (found.size() >= max_states || work > max_work) fail_too_large();
    if (!accepts) {
      closure.start(is_at_begin, true);
      for (const int at : key) {
        if (at >= 0) closure.add(at);
      }
      accepts = closure.has(Type::accept);
    }
    found.push_back(std::move(key));
    states_.push_back({accepts, {}});
    return entry->second;
  };

  closure.start(true, false);
  closure.add(start);
  number_of(true);
  std::vector<int> target_of(idx(classes.number));
  std::vector<std::vector<int>> nexts(idx(classes.number));
  for (std::size_t state = 0; state < found.size(); ++state) {
    if (found[state].front() == -2) {
      states_[state].edges = {{0, 0xD7FF, static_cast<int>(state)}, {0xE000, last_character, static_cast<int>(state)}};
      continue;
    }
    for (auto& next : nexts) next.clear();
    for (const int at : found[state]) {
      if (at < 0 || nodes.nodes[idx(at)].type != Type::characters) continue;
      for (const int one : classes.members[idx(nodes.nodes[idx(at)].set)])
        nexts[idx(one)].push_back(nodes.nodes[idx(at)].next);
    }
    for (std::size_t one = 0; one < nexts.size(); ++one) {
      closure.start(false, false);
      for (const int next : nexts[one]) closure.add(next);
      if (is_search) closure.add(start);
      target_of[one] = number_of(false);
    }
    states_[state].edges = edges_of<Edge>(classes, target_of);
  }
  minimize();
}

Pattern Pattern::all() { return of_length(0, std::nullopt); }

Pattern Pattern::literal(const std::string& text) {
  Pattern made;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    if (made.states_.size() >= max_states) fail_too_large();
    const char32_t c = utf8_character(text, at);
    made.states_.push_back({false, {{c, c, static_cast<int>(made.states_.size()) + 1}}});
  }
  made.states_.push_back({true, {}});
  return made;
}

Pattern Pattern::of_length(std::uint64_t least, std::optional<std::uint64_t> most) {
  const std::uint64_t last = most ? *most : least;
  if (last >= max_states) fail_too_large();
  Pattern made;
  for (std::uint64_t i = 0; i <= last; ++i) {
    const auto target = static_cast<int>(i < last ? i + 1 : i);
    State state{i >= least, {}};
    if (i < last || !most) state.edges = {{0, 0xD7FF, target}, {0xE000, last_character, target}};
    made.states_.push_back(std::move(state));
  }
  made.minimize();
  return made;
}

// A state stands for the number of zeros at the end, up to `zeros`, and the remainder of what precedes them.
Pattern Pattern::multiples(int divisor, int zeros) {
  constexpr int start = 0, sign = 1, zero = 2, first = 3;
  if (idx(divisor) * idx(zeros + 1) >= max_states) fail_too_large();
  Pattern made;
  made.states_.resize(idx(first + divisor * (zeros + 1)));
  const auto state_of = [&](int num_zeros, int remainder) { return first + num_zeros * divisor + remainder; };
  const auto add = [&](int from, int digit, int target) {
    const auto c = static_cast<char32_t>('0' + digit);
    made.states_[idx(from)].edges.push_back({c, c, target});
  };
  made.states_[start].edges.push_back({'-', '-', sign});
  add(start, 0, zero);
  for (const int from : {start, sign}) {
    for (int digit = 1; digit <= 9; ++digit) add(from, digit, state_of(0, digit % divisor));
  }
  made.states_[zero].accepts = true;
  for (int num_zeros = 0; num_zeros <= zeros; ++num_zeros) {
    for (int remainder = 0; remainder < divisor; ++remainder) {
      const int from = state_of(num_zeros, remainder);
      made.states_[idx(from)].accepts = num_zeros == zeros && remainder == 0;
      if (num_zeros < zeros) add(from, 0, state_of(num_zeros + 1, remainder));
      else add(from, 0, state_of(num_zeros, remainder * 10 % divisor));
      int whole = remainder;  // of what precedes, with its zeros
      for (int i = 0; i < num_zeros; ++i) whole = whole * 10 % divisor;
      for (int digit = 1; digit <= 9; ++digit) add(from, digit, state_of(0, (whole * 10 + digit) % divisor));
    }
  }
  made.minimize();
  return made;
}

// Both automata at once. needs_other: a text that the other has left cannot match.
template <class Accepts>
Pattern Pattern::product(const Pattern& other, Accepts accepts, bool needs_other) const {
  Pattern made;
  std::map<std::pair<int, int>, int> numbers;
  std::vector<std::pair<int, int>> pairs;
  std::size_t work = 0;
  const auto number_of = [&](int left, int right) {
    const auto [entry, is_new] = numbers.try_emplace({left, right}, static_cast<int>(pairs.size()));
    if (!is_new) return entry->second;
    if (pairs.size() >= max_states) fail_too_large();
    pairs.emplace_back(left, right);
    made.states_.push_back({accepts(states_[idx(left)].accepts, right >= 0 && other.states_[idx(right)].accepts), {}});
    return entry->second;
  };
  number_of(0, 0);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [left, right] = pairs[i];
    static const std::vector<Edge> none;
    const std::vector<Edge>& right_edges = right >= 0 ? other.states_[idx(right)].edges : none;
    std::vector<Edge> edges;
    const auto add = [&](char32_t first, char32_t last, int left_target, int right_target) {
      if (first > last || (right_target < 0 && needs_other)) return;
      if (++work > max_work) fail_too_large();
      edges.push_back({first, last, number_of(left_target, right_target)});
    };
    auto at = right_edges.begin();
    for (const Edge& edge : states_[idx(left)].edges) {
      while (at != right_edges.end() && at->last < edge.first) ++at;
      char32_t next = edge.first;
      for (auto one = at; one != right_edges.end() && one->first <= edge.last; ++one) {
        const char32_t first = std::max(one->first, edge.first), last = std::min(one->last, edge.last);
        if (first > next) add(next, first - 1, edge.target, -1);
        add(first, last, edge.target, one->target);
        next = last + 1;
      }
      add(next, edge.last, edge.target, -1);
    }
    made.states_[i].edges = std::move(edges);
  }
  made.minimize();
  return made;
}

Pattern Pattern::operator&(const Pattern& other) const {
  return product(other, [](bool left, bool right) { return left && right; }, true);
}

Pattern Pattern::operator-(const Pattern& other) const {
  return product(other, [](bool left, bool right) { return left && !right; }, false);
}

// Removes what leads to no text, then joins states that lead to the same texts: in rounds, each splits the groups by
// where their edges lead.
void Pattern::minimize() {
  const std::size_t size = states_.size();
  std::vector<std::vector<int>> sources(size);
  std::vector<int> pending;
  std::vector<bool> is_alive(size);
  for (std::size_t state = 0; state < size; ++state) {
    for (const Edge& edge : states_[state].edges) sources[idx(edge.target)].push_back(static_cast<int>(state));
    if (!states_[state].accepts) continue;
    is_alive[state] = true;
    pending.push_back(static_cast<int>(state));
  }
  while (!pending.empty()) {
    const int state = pending.back();
    pending.pop_back();
    for (const int source : sources[idx(state)]) {
      if (is_alive[idx(source)]) continue;
      is_alive[idx(source)] = true;
      pending.push_back(source);
    }
  }
  // The edges of a state with targets mapped, joined where they touch; dead targets left out.
  const auto mapped = [&](std::size_t state, const std::vector<int>& group_of) {
    std::vector<Edge> edges;
    for (const Edge& edge : states_[state].edges) {
      if (!is_alive[idx(edge.target)]) continue;
      const int target = group_of[idx(edge.target)];
      const bool is_joined = !edges.empty() && edges.back().target == target && edges.back().last + 1 == edge.first;
      if (is_joined) edges.back().last = edge.last;
      else edges.push_back({edge.first, edge.last, target});
    }
    return edges;
  };
  // A group is split again when targets of its states have moved to a new group. These states, its changed ones, then
  // differ from all others in it. The largest part keeps the group's number.
  std::vector<int> group_of(size), place(size);
  std::vector<std::vector<int>> groups(2), changed(2);
  const auto put = [&](int state, int group) {
    group_of[idx(state)] = group;
    place[idx(state)] = static_cast<int>(groups[idx(group)].size());
    groups[idx(group)].push_back(state);
  };
  const auto move_to = [&](int state, int group) {
    std::vector<int>& old = groups[idx(group_of[idx(state)])];
    place[idx(old.back())] = place[idx(state)];
    old[idx(place[idx(state)])] = old.back();
    old.pop_back();
    put(state, group);
  };
  for (std::size_t state = 0; state < size; ++state) {
    if (is_alive[state] || state == 0) put(static_cast<int>(state), states_[state].accepts ? 1 : 0);
  }
  changed[0] = groups[0], changed[1] = groups[1];
  std::vector<bool> is_changed(size, true);
  std::vector<int> queue = {0, 1};
  while (!queue.empty()) {
    const int group = queue.back();
    queue.pop_back();
    std::map<std::vector<int>, std::vector<int>> by_edges;
    const std::vector<int> states = std::exchange(changed[idx(group)], {});
    for (const int state : states) {
      is_changed[idx(state)] = false;
      std::vector<int> key;
      for (const Edge& edge : mapped(idx(state), group_of)) {
        key.push_back(static_cast<int>(edge.first));
        key.push_back(static_cast<int>(edge.last));
        key.push_back(edge.target);
      }
      by_edges[std::move(key)].push_back(state);
    }
    std::vector<std::vector<int>> parts;
    for (auto& part : by_edges) parts.push_back(std::move(part.second));
    const std::size_t num_others = groups[idx(group)].size() - states.size();
    const auto largest =
        std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (largest == parts.end()) continue;
    if (num_others < largest->size()) {
      std::vector<int> others;
      std::set<int> here(states.begin(), states.end());
      for (const int state : groups[idx(group)]) {
        if (here.count(state) == 0) others.push_back(state);
      }
      *largest = std::move(others);
    }
    const std::size_t first_made = groups.size();
    for (const std::vector<int>& part : parts) {
      if (part.empty()) continue;
      const auto made = static_cast<int>(groups.size());
      groups.emplace_back();
      changed.emplace_back();
      for (const int state : part) move_to(state, made);
    }
    for (std::size_t made = first_made; made < groups.size(); ++made) {
      for (const int state : groups[made]) {
        for (const int source : sources[idx(state)]) {
          const int touched = group_of[idx(source)];
          if (is_changed[idx(source)] || (!is_alive[idx(source)] && source != 0)) continue;
          is_changed[idx(source)] = true;
          if (changed[idx(touched)].empty()) queue.push_back(touched);
          changed[idx(touched)].push_back(source);
        }
      }
    }
  }
  // In the order of their first state, so that the start is first.
  std::vector<int> number(groups.size(), -1), first_of;
  for (std::size_t state = 0; state < size; ++state) {
    if (!is_alive[state] && state != 0) continue;
    int& made = number[idx(group_of[state])];
    if (made >= 0) continue;
    made = static_cast<int>(first_of.size());
    first_of.push_back(static_cast<int>(state));
  }
  for (int& group : group_of) group = number[idx(group)];
  std::vector<State> made;
  made.reserve(first_of.size());
  for (const int state : first_of) made.push_back({states_[idx(state)].accepts, mapped(idx(state), group_of)});
  states_ = std::move(made);
}

bool Pattern::is_empty() const { return states_.size() == 1 && !states_.front().accepts; }

bool Pattern::matches(const std::string& text) const {
  if (valid_utf8(text) != text) return false;
  int state = 0;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const char32_t c = utf8_character(text, at);
    const std::vector<Edge>& edges = states_[idx(state)].edges;
    const auto found = std::find_if(edges.begin(), edges.end(), [&](const Edge& edge) { return c <= edge.last; });
    if (found == edges.end() || c < found->first) return false;
    state = found->target;
  }
  return states_[idx(state)].accepts;
}

ByteAutomaton Pattern::bytes(Text text) const {
  ByteStates made(states_.size());
  for (std::size_t state = 0; state < states_.size(); ++state) {
    std::vector<ByteStates::Way> ways;
    for (const Edge& edge : states_[state].edges) {
      std::vector<Sequence> sequences;
      for (const CharacterRange& range : CharacterSet{{edge.first, edge.last}}.ranges()) {
        if (text == Text::json) add_json(range.first, range.last, sequences);
        else add_utf8(range.first, range.last, sequences);
      }
      for (Sequence& sequence : sequences) ways.push_back({std::move(sequence), edge.target});
    }
    std::vector<ByteAutomaton::Edge> edges = made.edges(std::move(ways));
    made.automaton.states[state].accepts = states_[state].accepts;
    made.automaton.states[state].edges = std::move(edges);
  }
  return std::move(made.automaton);
}

std::string Pattern::rule_body(Text text) const {
  std::string out = "Regex(\"?automaton:";
  for (const ByteAutomaton::State& state : bytes(text).states) {
    if (state.accepts) out += '!';
    for (const ByteAutomaton::Edge& edge : state.edges) {
      out += std::to_string(edge.first) + '-' + std::to_string(edge.last) + '>' + std::to_string(edge.target) + ',';
    }
    out += ';';
  }
  return out + "\")";
}

}  // namespace specdec
