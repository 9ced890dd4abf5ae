// Reading a text into a model's cache, in passes the model can take.
#pragma once

#include <algorithm>

#include "speculative/language_model.h"
#include "speculative/sequence.h"

namespace specdec {

// Brings the model's cache of the sequence up to its first `length` committed tokens. No logits are computed.
inline void cache_tokens(LanguageModel& model, const Sequence& sequence, int length) {
  for (int cached = model.length(sequence.slot); cached < length;) {
    const int count = std::min(length - cached, model.batch_size());
    model.decode({{sequence.slot, sequence.tokens.data() + cached, count, 0}});
    cached += count;
  }
}

}  // namespace specdec
