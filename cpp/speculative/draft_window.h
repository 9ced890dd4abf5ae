// Limits what a draft model reads of a long text to a window of the last tokens. So a long prompt costs it little, and
// its cache and the time of its passes stay bounded while the text grows.
#pragma once

#include "speculative/sequence.h"
#include "speculative/windowed_model.h"

namespace specdec {

// The beginning of a token's window depends only on the token's position, not on passes, drafts or time, so that a
// repeated text gets the same rows. It moves up by strides, a quarter of the window, once it is full.
class DraftWindow {
 public:
  // size: the most tokens of a window, 1 or more; the model's cache has room for them.
  DraftWindow(WindowedModel& model, int size);

  int size() const { return size_; }
  // The first token of the window in which the token at `position` is read, and the first token after it that is read
  // in another window.
  int begin(int position) const;
  int end(int position) const;

  // Tokens to read for the row after the token at `last`: at least 1, unless that token is cached.
  int num_unread(int slot, int last) const;
  // Reads committed tokens until the remaining ones, up to `last`, share one window. Returns the number read.
  int open(const Sequence& sequence, int last);
  // Reads the window of the token at `last` up to, but not including, that token; at most max_tokens. Returns the
  // number read.
  int read_before(const Sequence& sequence, int last, int max_tokens);

  // Truncates the cache to `length` tokens; empties it if it begins after the beginning of the window at `length`.
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
