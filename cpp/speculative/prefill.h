// Reads tokens into a model's cache, in passes of at most batch_size() tokens.
#pragma once

#include <algorithm>

#include "speculative/language_model.h"
#include "speculative/sequence.h"

namespace specdec {

// Extends the model's cache of the sequence to its first `length` tokens. Computes no logits.
inline void cache_tokens(LanguageModel& model, const Sequence& sequence, int length) {
  for (int cached = model.length(sequence.slot); cached < length;) {
    const int count = std::min(length - cached, model.batch_size());
    model.decode({{sequence.slot, sequence.tokens.data() + cached, count, 0}});
    cached += count;
  }
}

}  // namespace specdec
