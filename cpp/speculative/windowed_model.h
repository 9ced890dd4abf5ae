// A model whose cache holds a window of the text, which may begin anywhere. The text may have any length.
#pragma once

#include "speculative/language_model.h"

namespace specdec {

// Places and lengths count from the beginning of the text; tokens before first() are not in the cache. truncate() to
// first() or less empties the slot.
// An interface, as all models here: the loop knows no llama.cpp, and toy models have an exact law.
class WindowedModel : public virtual LanguageModel {
 public:
  virtual int first(int slot) const = 0;
  // Empties the slot. The next token that it reads is the one at `place`, which is then its length().
  virtual void start_at(int slot, int place) = 0;
  // Forgets the tokens before `place` without reading the others again. Returns false if that cannot be done; the
  // caller must then empty the slot.
  virtual bool drop_before(int slot, int place) = 0;
};

}  // namespace specdec
