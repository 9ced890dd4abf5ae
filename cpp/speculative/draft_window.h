// Which tokens of a long text a draft model reads: a window of the last ones. So a long prompt costs it little, and its
// cache and the time of its passes stay bounded while the text grows.
#pragma once

#include "speculative/sequence.h"
#include "speculative/windowed_model.h"

namespace specdec {

// Where the window of a token begins is a function of its position alone, not of passes, drafts or time, so that a
// repeated text meets the same rows. It moves up by strides, a quarter of the window, once it is full.
class DraftWindow {
 public:
  // size: the most tokens of a window, 1 or more; the model's cache has room for them.
  DraftWindow(WindowedModel& model, int size);

  int size() const { return size_; }
  // The first token of the window that the token at `position` is read in, and the first one after it that is read in
  // another window.
  int begin(int position) const;
  int end(int position) const;

  // Tokens to read for the row after the token at `last`: 1 or more, if that is not cached.
  int num_unread(int slot, int last) const;
  // Reads committed tokens until those that are left, up to `last`, have one window. Returns the number read.
  int open(const Sequence& sequence, int last);
  // Reads the window of the token at `last` without that itself, max_tokens of it at most. Returns the number read.
  int read_before(const Sequence& sequence, int last, int max_tokens);

  // Keeps what is the beginning of a window of the first `length` tokens.
  void truncate(int slot, int length);
  void clear(int slot) { model_.start_at(slot, 0); }

 private:
  void begin_reading(int slot, int last);
  int read(const Sequence& sequence, int length);
  void slide(int slot);

  WindowedModel& model_;
  int size_, stride_;
};

}  // namespace specdec
