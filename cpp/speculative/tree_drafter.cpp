#include "speculative/tree_drafter.h"

#include <algorithm>

#include "base/index.h"
#include "sampling/dead_end.h"
#include "sampling/gumbel_max.h"
#include "speculative/copies.h"
#include "speculative/reading_logits.h"

namespace specdec {
namespace {

constexpr int most_children = sampling::most_preferences;
// What the draft's top-p and min-p leave out may be what the target keeps. With this weight it costs the first child
// nothing, and of a real pair at temperature 0.8 one of four children is accepted at 0.893 of prose's places, not
// 0.881.
constexpr int most_listed = 40;
constexpr double tail_weight = 0.1;
constexpr double least_worth = 1.0 / 24.0;  // of a draft in tokens; measured costs are not exact enough for less

static_assert(max_draft_tokens <= max_tree_nodes, "every tree of drafts can be read");

bool takes_likeliest(const Sequence& s) { return s.transforms.params().greedy() || s.drafting == Drafting::argmax; }
// Nothing is drawn; else the children of a node are drawn without replacement.
bool chooses(const Sequence& s) { return takes_likeliest(s) || s.verification == Verification::invariant; }

}  // namespace

// What the models begin with was fitted to 3,200 places of a real pair's texts; that of a likeliest token is its
// probability. A drafting head's probabilities are far from its acceptance, and where text repeats, copies are certain:
// those models learn faster.
TreeDrafter::TreeDrafter(LanguageModel& draft, int vocabulary_size) : draft_(draft), vocabulary_size_(vocabulary_size) {
  AutoOptions::Acceptance options;
  const auto model = [&options](double level, double slope) {
    options.level = level;
    options.slope = slope;
    return AcceptanceModel(options);
  };
  options.least_confidence = 1e-6;
  options.level_variance = 0.5;
  options.slope_variance = 0.3;
  for (const Kind kind : {likeliest_first, likeliest_second, likeliest_further}) chances_[kind] = model(0.0, 1.0);
  chances_[preferred_first] = model(-0.2, 0.7);
  chances_[preferred_second] = model(-0.4, 0.5);
  chances_[preferred_further] = model(-1.0, 0.4);
  options.least_confidence = 0.01;
  options.slope_variance = 0.03;
  chances_[copy_agreed] = model(1.2, 0.3);
  chances_[copy_disputed] = model(-3.0, 0.3);
  chances_[copy_unread] = model(0.3, 0.6);
  options.level_variance = 0.2;
  options.slope_variance = 0.01;
  chances_[drawn_first] = model(0.2, 0.6);
  chances_[drawn_second] = model(-0.6, 0.4);
  chances_[drawn_further] = model(-1.2, 0.2);
  chances_of_drawn_[drawn_first] = model(0.7, 0.5);
  chances_of_drawn_[drawn_second] = model(-0.3, 0.3);
  chances_of_drawn_[drawn_further] = model(-1.0, 0.2);
}

TreeDrafter::Kind TreeDrafter::kind_of(const Sequence& s, int rank) {
  const Kind first = takes_likeliest(s) ? likeliest_first : chooses(s) ? preferred_first : drawn_first;
  return static_cast<Kind>(first + std::min(rank, 2));
}

TreeDrafter::Growth& TreeDrafter::growth(int slot) {
  if (growths_.size() <= idx(slot)) growths_.resize(idx(slot) + 1);
  return growths_[idx(slot)];
}

// What a tree may have in addition to the copies of a chain: another token in place of each, and drafts after them.
bool TreeDrafter::adds_to(const ProposalRequest& request, const std::vector<Copy>& copies, int num_unread) {
  if (copies.empty()) return true;
  const DraftLength& rule = *request.adaptive;
  const int count = rule.best_number_of_copies(*request.sequence, copies, num_unread);
  if (count == 0) return true;
  GrowingTree chain{count, 0.0, true};
  double reach = 1.0, missing = 0.0;
  next_.clear();
  const auto add = [&](double probability) {
    missing += probability;
    next_.push_back(probability * rule.typical_acceptance());
  };
  for (int i = 0; i < count; ++i) {
    const double accepted = rule.probability_of(copies[idx(i)]);
    add(reach * (1.0 - accepted));
    chain.accepted += reach *= accepted;
  }
  if (count < most_copies(request)) add(reach);
  return missing >= rule.worth_of_draft_pass(chain, 1) && rule.price_of_drafts(chain, next_).is_met();
}

void TreeDrafter::grow(const std::vector<ProposalRequest>& requests, const std::vector<std::vector<Copy>>& copies,
                       Stats& stats) {
  for (const ProposalRequest& request : requests) growth(request.sequence->slot);  // none moves from here on
  growing_.clear();
  int row = 0;
  for (const ProposalRequest& request : requests) {
    Sequence& s = *request.sequence;
    Growth& g = growth(s.slot);
    g.request = request;
    g.size = std::min(s.max_tree_size, request.num_tokens);
    g.adapts = s.tree_adapts && request.adaptive != nullptr;
    if (g.adapts) g.size = std::min(g.size, request.adaptive->largest_tree());
    g.nodes.clear();
    g.slots.clear();
    g.frontier.clear();
    g.depth = 0;
    g.accepted = 0.0;
    g.read.clear();
    g.parents.clear();
    if (!s.of_nodes)
      s.of_nodes =
          takes_likeliest(s) ? s.transforms.likeliest(most_children) : s.transforms.with_tail(most_listed, tail_weight);
    g.copies = copies[idx(row)];
    g.copied.clear();
    s.begin_tree();
    add_row(g, -1, draft_.logits(row++));
    add_unread_copies(g);
    fill(g, true);
    growing_.push_back(&g);
  }
  const std::vector<Growth*> all = growing_;
  while (read_level(stats)) {
  }
  for (Growth* g : all) {
    g->frontier.clear();
    fill(*g, g->adapts);
  }
}

// How many nodes of the frontier, the likeliest first, are worth the draft's next pass. Trees of a fixed size depend on
// no cost, so that a slow machine makes the same.
int TreeDrafter::num_worth_reading(const Growth& g, int most) {
  const Sequence& s = *g.request.sequence;
  const int room = draft_.room_for_nodes(s.slot, g.depth, static_cast<int>(g.read.size()));
  most = std::min({most, room, widest_level, static_cast<int>(g.frontier.size())});
  if (s.error || s.tree.size() >= g.size) return 0;
  if (!g.adapts) return std::max(0, most);
  if (!price(g).is_met()) return 0;
  const DraftLength* const rule = g.request.adaptive;
  double reach = 0.0, gained = 0.0;
  int best = 0;
  for (int count = 1; count <= most; ++count) {
    reach += g.nodes[idx(g.frontier[idx(count - 1)])].reach;
    const GrowingTree tree{s.tree.size(), g.accepted};
    const double cost =
        draft_.fills_blocks() ? rule->worth_of(count * node_seconds_, tree) : rule->worth_of_draft_pass(tree, count);
    const double gain = reach * gained_.mean() - cost;
    if (gain > gained) gained = gain, best = count;
  }
  return best;
}

// One pass over the frontiers of all trees that grow on. Returns false if there are none.
bool TreeDrafter::read_level(Stats& stats) {
  int room = std::min(draft_.row_capacity(), draft_.batch_size());
  const auto stops = [&](Growth* g) {
    const auto is_likelier = [g](int a, int b) { return g->nodes[idx(a)].reach > g->nodes[idx(b)].reach; };
    std::stable_sort(g->frontier.begin(), g->frontier.end(), is_likelier);
    const int count = num_worth_reading(*g, room);
    g->frontier.resize(idx(count));
    room -= count;
    return count == 0;
  };
  growing_.erase(std::remove_if(growing_.begin(), growing_.end(), stops), growing_.end());
  if (growing_.empty()) return false;
  double seconds = 0.0;
  int num_tokens = 0;
  {
    Stopwatch pass(seconds);
    inputs_.clear();
    tokens_.resize(std::max(tokens_.size(), growing_.size()));
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      Growth& g = *growing_[i];
      Sequence& s = *g.request.sequence;
      std::vector<Token>& tokens = tokens_[i];
      tokens.clear();
      for (const int node : g.frontier) {
        const int parent = s.tree.parents[idx(node)];
        g.parents.push_back(static_cast<int>(std::find(g.read.begin(), g.read.end(), parent) - g.read.begin()));
        if (parent < 0) g.parents.back() = -1;
        tokens.push_back(s.tree.tokens[idx(node)]);
      }
      g.read.insert(g.read.end(), g.frontier.begin(), g.frontier.end());
      const int count = static_cast<int>(tokens.size());
      num_tokens += count;
      s.stats.draft_tokens_read += count;
      inputs_.push_back({s.slot, tokens.data(), count, count, &g.parents});
    }
    {
      Stopwatch watch(stats.draft_seconds);
      draft_.decode(inputs_);
      if (!draft_.fills_blocks()) ++stats.draft_calls;
    }
    Stopwatch watch(stats.sampling_seconds);
    int row = 0;
    for (Growth* g : growing_) {
      std::vector<int> level;
      level.swap(g->frontier);
      ++g->depth;
      read_next_copy(*g, level);
      double reach = 0.0;
      for (const int node : level) {
        reach += g->nodes[idx(node)].reach;
        add_row(*g, node, draft_.logits(row++));
      }
      g->gained = 0.0;
      add_unread_copies(*g);
      fill(*g, true);
      gained_.add(g->gained, reach);
    }
  }
  DraftLength* const rule = growing_.front()->request.adaptive;
  if (draft_.fills_blocks()) node_seconds_ += 0.1 * (seconds / num_tokens - node_seconds_);
  else if (rule != nullptr) rule->record_draft_pass(num_tokens, num_tokens, seconds);
  return true;
}

// The row after a node; one that holds invalid logits is the sequence's error, one that allows no token has no slots.
void TreeDrafter::add_row(Growth& g, int node, const float* logits) {
  Sequence& s = *g.request.sequence;
  if (s.error) return;
  try {
    reading_logits_of("draft", [&] {
      try {
        read_row(g, node, logits);
      } catch (const sampling::NoTokenLeft&) {
        if (!s.constraint && !s.transforms.bans()) throw;
      }
    });
  } catch (...) {
    s.error = std::current_exception();
  }
}

void TreeDrafter::read_row(Growth& g, int node, const float* logits) {
  Sequence& s = *g.request.sequence;
  if (g.rows.size() <= idx(node + 1)) g.rows.resize(idx(node) + 2);
  Row& row = g.rows[idx(node + 1)];
  row.preferred.clear();
  row.num_children = 0;
  row.reach = node < 0 ? 1.0 : g.nodes[idx(node)].reach;
  row.rejected = row.left = 1.0;
  const int length = s.write_branch(node);
  sampling::Distribution& probs = s.draft_row(node + 1);
  s.of_nodes->apply(logits, vocabulary_size_, s.branch.data(), length, probs, s.mask(s.branch, length),
                    s.xtc_draw(length));
  if (takes_likeliest(s)) {
    std::vector<std::size_t> order(probs.tokens.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return probs.probs[a] > probs.probs[b]; });
    for (const std::size_t i : order) row.preferred.push_back({probs.tokens[i], probs.probs[i]});
  } else if (chooses(s)) {
    sampling::gumbel_order(probs, *s.uniforms, length, row.preferred);
  }
  put_copy_first(g, node);
  add_slot(g, node);
}

// For the node's next child.
void TreeDrafter::add_slot(Growth& g, int node) {
  const Sequence& s = *g.request.sequence;
  const Row& row = g.rows[idx(node + 1)];
  const sampling::Distribution& probs = s.draft_probs[idx(node + 1)];
  const bool has_more = chooses(s) ? idx(row.num_children) < row.preferred.size()
                                   : row.num_children < most_children && idx(row.num_children) < probs.tokens.size();
  if (!has_more || row.left < 1e-9) return;
  double top = 0.0;
  if (chooses(s)) {
    top = row.preferred[idx(row.num_children)].share;
  } else {
    for (std::size_t i = 0; i < probs.tokens.size(); ++i) {
      if (probs.probs[i] > top && !s.tree.has_child(node, probs.tokens[i])) top = probs.probs[i];
    }
  }
  const double confidence = std::min(1.0, top / row.left),
               accepted = chances_[kind_of(s, row.num_children)].expected_probability(confidence);
  g.slots.push_back({row.reach * row.rejected * accepted, accepted, confidence, node});
  std::push_heap(g.slots.begin(), g.slots.end());
}

Token TreeDrafter::take_token(Growth& g, int node) {
  Sequence& s = *g.request.sequence;
  const Row& row = g.rows[idx(node + 1)];
  if (chooses(s)) return row.preferred[idx(row.num_children)].token;
  row_ = s.draft_probs[idx(node + 1)];
  for (int child = node + 1; child < s.tree.size(); ++child) {
    if (s.tree.parents[idx(child)] == node) sampling::remove_token(row_, s.tree.tokens[idx(child)]);
  }
  return sampling::draw(row_, s.uniforms->uniform(s.num_committed, s.tree.size(), sampling::Purpose::draft));
}

// A node of the depth that the draft reads next is read, unless the text ends with it.
void TreeDrafter::add_node(Growth& g, int parent, Token token, const Node& node, DraftOrigin origin) {
  Sequence& s = *g.request.sequence;
  g.accepted += node.reach;
  g.nodes.push_back(node);
  s.add_node(parent, token, origin, is_drawn(node.kind) && !chooses(s));
  if (node.depth == g.depth && goes_on(g, token)) g.frontier.push_back(s.tree.size() - 1);
}

// Whether the draft may read a node with this token.
bool TreeDrafter::goes_on(const Growth& g, Token token) const {
  return token < vocabulary_size_ && !draft_.is_end_of_generation(token) && !g.request.sequence->is_stop_token(token);
}

// Of further nodes while the tree grows: of the slots, of what the frontier's rows may offer, and of the copies from
// `depth` on, the first of which is accepted with the probability `reach`; 0: there are none.
DraftPrice TreeDrafter::price(const Growth& g, std::size_t depth, double reach) {
  if (!g.adapts) return {1.0 / g.size, 1.0 / g.size};
  const DraftLength& rule = *g.request.adaptive;
  next_.clear();
  for (const Slot& slot : g.slots) next_.push_back(slot.value);
  for (const int node : g.frontier) next_.push_back(g.nodes[idx(node)].reach * rule.typical_acceptance());
  for (; reach > 0.0; reach *= rule.probability_of(g.copies[depth])) {
    next_.push_back(reach);
    if (++depth == g.copies.size()) break;
  }
  const DraftPrice price = rule.price_of_drafts({g.request.sequence->tree.size(), g.accepted}, next_);
  return {std::max(price.least, least_worth), std::max(price.each, least_worth)};
}

// Fills the slots of the highest values. is_growing: only those that are worth more than what may still come.
void TreeDrafter::fill(Growth& g, bool is_growing) {
  Sequence& s = *g.request.sequence;
  while (!s.error && s.tree.size() < g.size && !g.slots.empty()) {
    const DraftPrice drafts = is_growing ? price(g) : DraftPrice();
    if (g.slots.front().value < drafts.least) break;
    std::pop_heap(g.slots.begin(), g.slots.end());
    const Slot slot = g.slots.back();
    g.slots.pop_back();
    Row& row = g.rows[idx(slot.node + 1)];
    const Token token = take_token(g, slot.node);
    const int depth = slot.node < 0 ? 0 : g.nodes[idx(slot.node)].depth + 1;
    if (depth == g.depth) g.gained += slot.value - drafts.each;
    const double probability =
        chooses(s) ? row.preferred[idx(row.num_children)].share : s.draft_probs[idx(slot.node + 1)].probability(token);
    const Kind kind = kind_of(s, row.num_children);
    const double share = std::min(1.0, probability / row.left);
    const double chance = chooses(s) ? slot.chance : chances_of_drawn_[kind].expected_probability(share);
    add_node(g, slot.node, token, {depth, row.reach * row.rejected * chance, kind, slot.confidence, share},
             DraftOrigin::model);
    row.left -= probability;
    row.rejected *= 1.0 - chance;
    ++row.num_children;
    add_slot(g, slot.node);
  }
}

// Chains know more texts than trees, and what they learnt outlives a process.
double TreeDrafter::chance_of(const Growth& g, Kind kind, const Copy& copy) const {
  if (kind == copy_unread && g.request.adaptive != nullptr) return g.request.adaptive->probability_of(copy);
  return chances_[kind].expected_probability(copy.confidence);
}

// The next copy becomes a node, if it is worth one.
bool TreeDrafter::add_copy(Growth& g, Kind kind) {
  const Sequence& s = *g.request.sequence;
  const std::size_t depth = g.copied.size();
  if (depth == g.copies.size() || s.error || s.tree.size() >= g.size) return false;
  const Copy& copy = g.copies[depth];
  const int parent = depth == 0 ? -1 : g.copied.back();
  const double reach = (parent < 0 ? 1.0 : g.nodes[idx(parent)].reach) * chance_of(g, kind, copy);
  if (reach < price(g, depth, reach).least) {
    g.copies.resize(depth);
    return false;
  }
  g.copied.push_back(s.tree.size());
  add_node(g, parent, copy.token, {static_cast<int>(depth), reach, kind, copy.confidence, 0.0}, copy.origin);
  return true;
}

// Copies whose parent's row is not known.
void TreeDrafter::add_unread_copies(Growth& g) {
  while (add_copy(g, copy_unread)) {
  }
}

// The copies that are in the tree already join the level below the one that was read.
void TreeDrafter::read_next_copy(Growth& g, const std::vector<int>& level) {
  const auto depth = idx(g.depth);
  if (depth >= g.copied.size() || std::find(level.begin(), level.end(), g.copied[depth - 1]) == level.end()) return;
  if (goes_on(g, g.copies[depth].token)) g.frontier.push_back(g.copied[depth]);
}

// What the draft's row says of the copy that follows the node; it is the node's first child then.
void TreeDrafter::put_copy_first(Growth& g, int node) {
  Row& row = g.rows[idx(node + 1)];
  const Sequence& s = *g.request.sequence;
  const std::size_t depth = node < 0 ? 0 : idx(g.nodes[idx(node)].depth + 1);
  const bool follows =
      depth < g.copies.size() && (node < 0 || (depth <= g.copied.size() && g.copied[depth - 1] == node));
  if (!follows) return;
  const Token token = g.copies[depth].token;
  const sampling::Distribution& probs = s.draft_probs[idx(node + 1)];
  double top = 0.0, share = 0.0;
  auto at = row.preferred.end();
  if (chooses(s)) {
    at = std::find_if(row.preferred.begin(), row.preferred.end(), [&](const auto& p) { return p.token == token; });
    top = row.preferred.empty() ? 0.0 : row.preferred.front().share;
    share = at == row.preferred.end() ? 0.0 : at->share;
  } else {
    top = probs.probs.empty() ? 0.0 : *std::max_element(probs.probs.begin(), probs.probs.end());
    share = probs.probability(token);
  }
  const Kind kind = share >= top ? copy_agreed : copy_disputed;
  if (depth == g.copied.size() && !add_copy(g, kind)) return;
  row.left -= share;
  row.rejected = 1.0 - chance_of(g, kind, g.copies[depth]);
  row.num_children = 1;
  if (!chooses(s)) return;
  if (at != row.preferred.end()) row.preferred.erase(at);
  row.preferred.insert(row.preferred.begin(), {token, share});
}

void TreeDrafter::keep_path(const Sequence& s, const std::vector<int>& path) {
  Growth& g = growth(s.slot);
  std::size_t place = 0;  // of the path
  for (int node = 0, parent = -1; node < s.tree.size(); ++node) {
    if (s.tree.parents[idx(node)] != parent) continue;
    const bool is_kept = place < path.size() && path[place] == node;
    const Node& judged = g.nodes[idx(node)];
    chances_[judged.kind].learn(judged.confidence, is_kept);
    const bool is_first = judged.kind == likeliest_first || judged.kind == preferred_first ||
                          judged.kind == drawn_first || judged.kind >= copy_agreed;
    const double confidence = judged.kind == drawn_first ? judged.share : judged.confidence;
    if (is_first && g.request.adaptive != nullptr)
      g.request.adaptive->judged(s.origins[idx(node)], {judged.confidence, confidence}, is_kept);
    if (is_drawn(judged.kind)) chances_of_drawn_[judged.kind].learn(judged.share, is_kept);
    if (!is_kept) continue;
    parent = node;
    ++place;
  }
  for (AcceptanceModel& chance : chances_) chance.forget();
  for (AcceptanceModel& chance : chances_of_drawn_) chance.forget();
  std::vector<int> kept;
  for (const int node : path) {
    const auto at = std::find(g.read.begin(), g.read.end(), node);
    if (at == g.read.end()) break;
    kept.push_back(static_cast<int>(at - g.read.begin()));
  }
  draft_.keep_path(s.slot, kept);
}

}  // namespace specdec
