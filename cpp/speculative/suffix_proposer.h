// Suffix decoding (Oliaro et al. 2411.04975): proposes what most often followed the longest match of the sequence's
// last tokens. It looks in the sequence itself, in the prediction of its output and in earlier outputs, and takes the
// match with the most certain continuation. Needs no model.
#pragma once

#include <memory>
#include <vector>

#include "speculative/corpus_index.h"
#include "speculative/earlier_outputs.h"
#include "speculative/proposer.h"
#include "speculative/suffix_index.h"

namespace specdec {

enum class CopiedTexts { all, predictions };  // predictions: only the predictions of requests

// A corpus, if there is one, is always used: it is the same in every run. Earlier outputs are not used if a seed must
// repeat an output that depends on the drafts: with a fixed K and token or block verification. In all other cases
// either the output does not depend on the drafts, or every request has random numbers of its own ("What a seed
// repeats" in docs/losslessness.md).
class SuffixProposer final : public Proposer {
 public:
  // corpus: another text to search, or null; several proposers may share it.
  explicit SuffixProposer(std::shared_ptr<const CorpusIndex> corpus = nullptr, CopiedTexts texts = CopiedTexts::all)
      : corpus_(std::move(corpus)), looks_everywhere_(texts == CopiedTexts::all) {}

  // Proposals are one-hot, so they may be dropped or shortened without bias.
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override;
  int room(int) const override { return max_draft_tokens; }
  void prefill(const Sequence& sequence, int length) override;
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;
  void remember(const Token* output, int count) override {
    if (looks_everywhere_) earlier_.add(output, count);
  }

  // Writes to `copies` at most `most` tokens that the texts propose after the sequence's tokens, drafts included.
  void look_up(Sequence& sequence, int most, std::vector<Copy>& copies);

 private:
  struct Source {
    const TextIndex* index = nullptr;
    TextIndex::Continuation next;
    double confidence = 0.0;  // in the next token
  };
  static Source source_at(const TextIndex& index, const TextIndex::Match& match);
  Source find_in_other_texts(const Sequence& sequence, const Token* context, int count) const;
  Source find(const Sequence& sequence, const Token* context, int count) const;
  void judge(Sequence& sequence);
  SuffixIndex& text_of(int slot);

  std::vector<SuffixIndex> texts_;  // by slot: a prefix of the committed tokens
  EarlierOutputs earlier_;
  std::shared_ptr<const CorpusIndex> corpus_;
  bool looks_everywhere_;
  std::vector<Token> context_;  // the sequence's last tokens, and the copies so far
  std::vector<Copy> copies_;
};

}  // namespace specdec
