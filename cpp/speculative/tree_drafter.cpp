#include "speculative/tree_drafter.h"

#include <algorithm>

#include "base/index.h"
#include "sampling/dead_end.h"
#include "sampling/gumbel_max.h"
#include "speculative/reading_logits.h"

namespace specdec {
namespace {

constexpr int most_children = 16;
constexpr double least_worth = 1.0 / 24.0;  // of a draft in tokens; measured costs are not exact enough for less

static_assert(max_draft_tokens <= max_tree_nodes, "every tree of drafts can be read");

bool takes_likeliest(const Sequence& s) { return s.transforms.params().greedy() || s.drafting == Drafting::argmax; }
// Nothing is drawn; else the children of a node are drawn without replacement.
bool chooses(const Sequence& s) { return takes_likeliest(s) || s.verification == Verification::invariant; }

}  // namespace

TreeDrafter::TreeDrafter(LanguageModel& draft, int vocabulary_size) : draft_(draft), vocabulary_size_(vocabulary_size) {
  AutoOptions::Acceptance probabilities;
  probabilities.slope = 1.0;
  probabilities.level_variance = 0.2;
  probabilities.slope_variance = 0.01;
  probabilities.least_confidence = 1e-6;
  likeliest_.fill(AcceptanceModel(probabilities));
  drawn_.fill(AcceptanceModel(probabilities));
  // The first of drawn tokens is accepted more often than it is drawn.
  probabilities.level = 1.0;
  probabilities.slope = 0.7;
  drawn_[0] = AcceptanceModel(probabilities);
}

AcceptanceModel& TreeDrafter::model_of(const Sequence& s, int rank) {
  return (takes_likeliest(s) ? likeliest_ : drawn_)[idx(std::min(rank, 2))];
}

TreeDrafter::Growth& TreeDrafter::growth(int slot) {
  if (growths_.size() <= idx(slot)) growths_.resize(idx(slot) + 1);
  return growths_[idx(slot)];
}

void TreeDrafter::grow(const std::vector<ProposalRequest>& requests, Stats& stats) {
  for (const ProposalRequest& request : requests) growth(request.sequence->slot);  // none moves from here on
  growing_.clear();
  int row = 0;
  for (const ProposalRequest& request : requests) {
    Sequence& s = *request.sequence;
    Growth& g = growth(s.slot);
    g.request = request;
    g.size = std::min(s.max_tree_size, request.num_tokens);
    g.adapts = s.tree_adapts && request.adaptive != nullptr;
    g.nodes.clear();
    g.slots.clear();
    g.frontier.clear();
    g.depth = 0;
    g.read.clear();
    g.parents.clear();
    if (takes_likeliest(s) && !s.likeliest) s.likeliest = s.transforms.likeliest(most_children);
    s.begin_tree();
    s.tree.is_drawn = !chooses(s);
    add_row(g, -1, draft_.logits(row++));
    fill(g, true);
    growing_.push_back(&g);
  }
  const std::vector<Growth*> all = growing_;
  while (read_level(stats)) {
  }
  for (Growth* g : all) {
    if (!g->adapts) fill(*g, false);
  }
}

// Whether another pass of the draft is worth its time: it can at most double what its nodes are worth.
bool TreeDrafter::reads_on(const Growth& g) const {
  const Sequence& s = *g.request.sequence;
  if (g.frontier.empty() || s.error || s.tree.size() >= g.size) return false;
  const int room = draft_.end(s.slot) - draft_.length(s.slot) - static_cast<int>(g.read.size() + g.frontier.size());
  if (room < 0) return false;
  double reach = 0.0;
  for (const int node : g.frontier) reach += g.nodes[idx(node)].reach;
  return g.request.adaptive == nullptr || reach >= g.request.adaptive->worth_of_draft_pass();
}

// One pass over the frontiers of all trees that grow on. Returns false if there are none.
bool TreeDrafter::read_level(Stats& stats) {
  int room = std::min(draft_.row_capacity(), draft_.batch_size());
  const auto stops = [&](Growth* g) {
    const int most = std::min(room, widest_level);
    if (most == 0 || !reads_on(*g)) return true;
    const auto is_likelier = [g](int a, int b) { return g->nodes[idx(a)].reach > g->nodes[idx(b)].reach; };
    std::stable_sort(g->frontier.begin(), g->frontier.end(), is_likelier);
    if (g->frontier.size() > idx(most)) g->frontier.resize(idx(most));
    room -= static_cast<int>(g->frontier.size());
    return false;
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
      ++stats.draft_calls;
    }
    Stopwatch watch(stats.sampling_seconds);
    int row = 0;
    for (Growth* g : growing_) {
      std::vector<int> level;
      level.swap(g->frontier);
      ++g->depth;
      for (const int node : level) add_row(*g, node, draft_.logits(row++));
      fill(*g, true);
    }
  }
  DraftLength* const rule = growing_.front()->request.adaptive;
  if (rule != nullptr) rule->record_draft_pass(num_tokens, num_tokens, seconds);
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
  row.likeliest.clear();
  row.num_children = 0;
  row.reach = node < 0 ? 1.0 : g.nodes[idx(node)].reach;
  row.rejected = row.left = 1.0;
  const int length = s.write_branch(node);
  sampling::Distribution& probs = s.draft_row(node + 1);
  sampling::Transforms& transforms = takes_likeliest(s) ? *s.likeliest : s.transforms;
  transforms.apply(logits, vocabulary_size_, s.branch.data(), length, probs, s.mask(s.branch, length),
                   s.xtc_draw(length));
  if (takes_likeliest(s)) {
    std::vector<std::size_t> order(probs.tokens.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return probs.probs[a] > probs.probs[b]; });
    for (const std::size_t i : order) row.likeliest.push_back(probs.tokens[i]);
  } else if (chooses(s)) {
    sampling::gumbel_order(probs, *s.uniforms, length, most_children, row.likeliest);
  }
  add_slot(g, node);
}

// For the node's next child.
void TreeDrafter::add_slot(Growth& g, int node) {
  const Sequence& s = *g.request.sequence;
  const Row& row = g.rows[idx(node + 1)];
  const sampling::Distribution& probs = s.draft_probs[idx(node + 1)];
  const bool has_more = chooses(s) ? idx(row.num_children) < row.likeliest.size()
                                   : row.num_children < most_children && idx(row.num_children) < probs.tokens.size();
  if (!has_more || row.left < 1e-9) return;
  double top = 0.0;
  if (takes_likeliest(s)) {
    top = probs.probability(row.likeliest[idx(row.num_children)]);
  } else {
    for (std::size_t i = 0; i < probs.tokens.size(); ++i) {
      if (probs.probs[i] > top && !s.tree.has_child(node, probs.tokens[i])) top = probs.probs[i];
    }
  }
  const double confidence = std::min(1.0, top / row.left),
               accepted = model_of(s, row.num_children).probability(confidence);
  g.slots.push_back({row.reach * row.rejected * accepted, accepted, confidence, node});
  std::push_heap(g.slots.begin(), g.slots.end());
}

Token TreeDrafter::take_token(Growth& g, int node) {
  Sequence& s = *g.request.sequence;
  const Row& row = g.rows[idx(node + 1)];
  if (chooses(s)) return row.likeliest[idx(row.num_children)];
  row_ = s.draft_probs[idx(node + 1)];
  for (int child = node + 1; child < s.tree.size(); ++child) {
    if (s.tree.parents[idx(child)] == node) sampling::remove_token(row_, s.tree.tokens[idx(child)]);
  }
  return sampling::draw(row_, s.uniforms->uniform(s.num_committed, s.tree.size(), sampling::Purpose::draft));
}

// Fills the slots of the highest values. is_growing: only those that are worth more than what may still come.
void TreeDrafter::fill(Growth& g, bool is_growing) {
  Sequence& s = *g.request.sequence;
  const auto least_value = [&] {
    if (!is_growing) return 0.0;
    return g.adapts ? std::max(g.request.adaptive->worth_of_draft(s.tree.size()), least_worth) : 1.0 / g.size;
  };
  while (!s.error && s.tree.size() < g.size && !g.slots.empty() && g.slots.front().value >= least_value()) {
    std::pop_heap(g.slots.begin(), g.slots.end());
    const Slot slot = g.slots.back();
    g.slots.pop_back();
    Row& row = g.rows[idx(slot.node + 1)];
    const Token token = take_token(g, slot.node);
    const int depth = slot.node < 0 ? 0 : g.nodes[idx(slot.node)].depth + 1;
    g.nodes.push_back({depth, slot.value, row.num_children, slot.confidence});
    s.add_node(slot.node, token, DraftOrigin::model);
    row.left -= s.draft_probs[idx(slot.node + 1)].probability(token);
    row.rejected *= 1.0 - slot.chance;
    ++row.num_children;
    add_slot(g, slot.node);
    const bool may_go_on = depth == g.depth && !draft_.is_end_of_generation(token) && !s.is_stop_token(token);
    if (may_go_on) g.frontier.push_back(s.tree.size() - 1);
  }
}

void TreeDrafter::keep_path(const Sequence& s, const std::vector<int>& path) {
  Growth& g = growth(s.slot);
  std::size_t place = 0;  // of the path
  for (int node = 0, parent = -1; node < s.tree.size(); ++node) {
    if (s.tree.parents[idx(node)] != parent) continue;
    const bool is_kept = place < path.size() && path[place] == node;
    model_of(s, g.nodes[idx(node)].rank).learn(g.nodes[idx(node)].confidence, is_kept);
    if (!is_kept) continue;
    parent = node;
    ++place;
  }
  for (AcceptanceModel& model : takes_likeliest(s) ? likeliest_ : drawn_) model.forget();
  std::vector<int> kept;
  for (const int node : path) {
    const auto at = std::find(g.read.begin(), g.read.end(), node);
    if (at == g.read.end()) break;
    kept.push_back(static_cast<int>(at - g.read.begin()));
  }
  draft_.keep_path(s.slot, kept);
}

}  // namespace specdec
