// The speculative decoding loop: draft, score in one target pass, verify, roll back.
//
// Leviathan et al. 2211.17192 algorithm 1; Chen et al. 2302.01318 algorithm 2; the other verifications are named in
// sampling/. The law of the output is the target's whatever the proposer does. Every cycle yields at least one token of the target, so
// there is no live-lock.
#pragma once

#include <limits>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/verify_token.h"
#include "speculative/draft_length.h"
#include "speculative/language_model.h"
#include "speculative/proposer.h"
#include "speculative/sequence.h"
#include "speculative/stats.h"

namespace specdec {

// Invariant between cycles: the target's cache holds every committed token but the last, the proposer's cache a prefix of
// the committed tokens. Whatever is thrown, both hold again afterwards and the sequences can go on.
class Decoder {
 public:
  // proposer: may be null, then every cycle makes one token with the target alone.
  // draft_length: serves the sequences that ask for auto_draft_tokens; null: as many as there is room for.
  Decoder(LanguageModel& target, Proposer* proposer, DraftLength* draft_length = nullptr);

  // Reads all committed tokens but the last into both caches, from wherever these are now, max_tokens of them at most; true
  // once none is left.
  bool prefill(Sequence& sequence, int max_tokens = std::numeric_limits<int>::max());

  // How many sequences like these one cycle can take without shortening anyone's number of drafts: 1 or more.
  int capacity(const std::vector<Sequence*>& sequences) const;

  // One cycle of every sequence, slots ascending: fills `emitted` (1 .. K + 1 tokens, committed) and sets `finish` where the text
  // ends; or `error`.
  void cycle(const std::vector<Sequence*>& sequences);

  // Shortens the committed text and both caches with it.
  void truncate(Sequence& sequence, int num_committed);

  // Moves a sequence to another slot, of which nothing is kept.
  void move(Sequence& sequence, int slot);

  int num_cached(int slot) const { return target_.length(slot); }
  // Gives a slot what is cached in another one, cut to the first `length` tokens.
  void copy_prefix(int from, int to, int length);
  // Cuts what is cached in a slot to at most `length` tokens; how many are left in the target's cache.
  int keep_prefix(int slot, int length);

 private:
  int room_for_drafts(const Sequence& sequence, int num_sequences) const;
  void propose(const std::vector<Sequence*>& sequences);
  void score(const std::vector<Sequence*>& sequences);
  void verify(Sequence& sequence, int first_row);
  sampling::Verdict verdict(Sequence& sequence, int first_row);
  void commit(Sequence& sequence, int num_accepted, Token next_token, int first_row);
  void restore(Sequence& sequence);

  LanguageModel& target_;
  Proposer* proposer_;
  DraftLength* draft_length_;
  Stats cycle_;  // of the running or last cycle
  std::vector<ProposalRequest> requests_;
  std::vector<PassInput> inputs_;
  sampling::Distribution row_, residual_, longest_residual_;
};

}  // namespace specdec
