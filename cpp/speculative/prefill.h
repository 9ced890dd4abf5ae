// Reads tokens into a model's cache, in passes of at most batch_size() tokens.
#pragma once

#include <algorithm>

#include "speculative/language_model.h"
#include "speculative/reading_logits.h"
#include "speculative/sequence.h"

namespace specdec {

// Where to stop: after max_tokens, or a few more so that pieces are complete. Pieces begin where the tokens do, at the
// beginning of the text or behind a picture.
inline int prefill_end(const LanguageModel& model, const std::vector<Picture>& pictures, int cached, int length,
                       int max_tokens) {
  if (length - cached <= max_tokens) return length;
  const int begin = end_of_picture_before(pictures, cached, 0), read = cached - begin, piece = model.prompt_piece();
  return std::min(length, begin + std::max((read + max_tokens) / piece, read / piece + 1) * piece);
}
// The same for a caller that cuts no picture.
inline int prefill_end(const LanguageModel& model, const Text& text, int cached, int length, int max_tokens) {
  const int end = prefill_end(model, text.pictures, cached, length, max_tokens);
  const Picture* const picture = picture_from(text.pictures, end);
  if (picture == nullptr || end <= picture->place) return end;
  return picture->place > cached ? picture->place : std::min(length, picture->end());
}

// Extends the model's cache of the sequence to its first `length` tokens. Computes no logits.
inline void cache_tokens(LanguageModel& model, const Sequence& sequence, int length) {
  for (int cached = model.length(sequence.slot); cached < length;) {
    PassInput input{sequence.slot, sequence.tokens.data() + cached, 0, 0};
    int end = prefill_end(model, sequence.pictures, cached, length, model.batch_size());
    const Picture* const picture = model.reads_pictures() ? picture_from(sequence.pictures, cached) : nullptr;
    if (picture != nullptr && picture->place == cached) {
      input.picture = picture;
      end = picture->end();
    } else if (picture != nullptr) {
      end = std::min(end, picture->place);
    }
    input.num_tokens = end - cached;
    model.decode({input});
    cached = end;
  }
}

// The same with logits for the tokens before scored ones. The cache holds what is scored already.
inline void score_tokens(LanguageModel& model, const Sequence& sequence, int length) {
  Score& score = *sequence.prompt_score;
  const int unscored = score.num_unscored();
  cache_tokens(model, sequence, std::min(length, unscored / model.prompt_piece() * model.prompt_piece()));
  const int most = std::min(model.batch_size(), model.row_capacity());
  for (int cached = model.length(sequence.slot); cached < length;) {
    const int count = std::min(length - cached, most), rows = std::clamp(cached + count - unscored, 0, count);
    model.decode({{sequence.slot, sequence.tokens.data() + cached, count, rows}});
    score.truncate(cached);  // the score is longer than the cache if a failed pass has emptied the cache
    for (int row = 0; row < rows; ++row) {
      reading_logits_of("target", [&] { score.add(model.logits(row), model.vocabulary_size()); });
    }
    cached += count;
  }
}

}  // namespace specdec
