// A model whose cache may begin anywhere in the text and holds a window of it. A text may be as long as it likes.
#pragma once

#include "speculative/language_model.h"

namespace specdec {

// Positions and lengths count from the beginning of the text, of which the tokens before first() are not in the cache.
// Where that moved up, truncate() to less empties the slot.
class WindowedModel : public virtual LanguageModel {
 public:
  virtual int first(int slot) const = 0;
  // Empties the slot. The next token that it reads is the one at `position`: so long length() is.
  virtual void start_at(int slot, int position) = 0;
  // Forgets the tokens before `position` without reading the others again. Returns false where that cannot be done; the
  // slot is then to be emptied.
  virtual bool drop_before(int slot, int position) = 0;
};

}  // namespace specdec
