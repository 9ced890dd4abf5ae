// The speculative decoding loop: draft, score in one target pass, verify, roll back.
//
// Leviathan et al. 2211.17192 algorithm 1; Chen et al. 2302.01318 algorithm 2. The other kinds of verification are in
// sampling/. The output has the target's distribution for any proposer. Every cycle yields at least one token, so the
// loop ends.
#pragma once

#include <limits>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/verify_token.h"
#include "sampling/verify_tree.h"
#include "speculative/draft_length.h"
#include "speculative/language_model.h"
#include "speculative/proposer.h"
#include "speculative/sequence.h"
#include "speculative/slot_caches.h"
#include "speculative/stats.h"

namespace specdec {

// Invariant between cycles: the target's cache holds all committed tokens except the last (with recurrent layers a
// prefix of these), and the proposer's cache holds a prefix of the committed tokens. It also holds after an exception,
// so the sequences can continue.
class Decoder final : public SlotCaches {
 public:
  // proposer: null decodes without a draft, one token per cycle.
  // draft_length: used for sequences with auto_draft_tokens; null: drafts as many tokens as there is room for.
  Decoder(LanguageModel& target, Proposer* proposer, DraftLength* draft_length = nullptr);

  // Reads committed tokens, except the last, into both caches unless they are there; at most max_tokens per call.
  // Returns true once none is left.
  bool prefill(Sequence& sequence, int max_tokens = std::numeric_limits<int>::max());
  // How many tokens the target's cache holds after the next call.
  int prefill_end(const Sequence& sequence, int max_tokens) const;

  // The number of sequences like these that one cycle can take without shortening any draft: 1 or more.
  int capacity(const std::vector<Sequence*>& sequences) const;

  // Runs one cycle of every sequence, slots ascending. Each sequence gets `emitted` (1 .. K + 1 committed tokens) and,
  // at its end, `finish`; or `error`.
  void cycle(const std::vector<Sequence*>& sequences);

  // Drops committed tokens from num_committed on, from the sequence, both caches, and the statistics of the last cycle.
  void truncate(Sequence& sequence, int num_committed);

  // To be called when the sequence is finished: its tokens from num_prompt on may be proposed to later sequences.
  void remember(const Sequence& sequence, int num_prompt);

  int num_cached(int slot) const override { return target_.length(slot); }
  void copy_prefix(int from, int to, int length) override;
  int keep_prefix(int slot, int length) override;
  int reuse_prefix(int slot, int length) override { return keep_prefix(slot, target_.reusable(slot, length)); }

 private:
  // A tree as a pass reads it, level by level, after the committed tokens that the target has not read yet.
  struct TreePass {
    std::vector<Token> tokens;
    std::vector<int> parents;  // by place among the nodes of the pass
    std::vector<int> places;   // [node]
  };

  void read_lost_tokens(const std::vector<Sequence*>& sequences);
  int room_for_drafts(const Sequence& sequence, int num_sequences) const;
  void propose(const std::vector<Sequence*>& sequences);
  void score(const std::vector<Sequence*>& sequences);
  TreePass& tree_pass(const Sequence& sequence);
  static void arrange(const Sequence& sequence, int num_cached, TreePass& pass);
  void verify(Sequence& sequence, int first_row);
  sampling::Verdict verdict(Sequence& sequence, int first_row);
  sampling::TreeVerdict tree_verdict(Sequence& sequence, int first_row);
  void keep_path(Sequence& sequence, const std::vector<int>& path);
  void commit(Sequence& sequence, int num_accepted, Token next_token);
  void restore(Sequence& sequence);

  LanguageModel& target_;
  Proposer* proposer_;
  DraftLength* draft_length_;
  Stats cycle_;  // passes and times of the current or last cycle; sequences count their own tokens
  std::vector<ProposalRequest> requests_;
  std::vector<PassInput> inputs_;
  std::vector<TreePass> trees_;  // by slot
  std::vector<int> rows_;        // of the tokens that a cycle commits
  sampling::Distribution row_, residual_, longest_residual_;
  sampling::TreeScratch tree_scratch_;
};

}  // namespace specdec
