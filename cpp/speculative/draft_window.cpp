#include "speculative/draft_window.h"

#include <algorithm>

#include "speculative/prefill.h"

namespace specdec {

DraftWindow::DraftWindow(WindowedModel& model, int size) : model_(model), size_(size), stride_(std::max(1, size / 4)) {}

int DraftWindow::begin(int position) const {
  return position < size_ ? 0 : position / stride_ * stride_ - (size_ - stride_);
}

int DraftWindow::end(int position) const { return position < size_ ? size_ : (position / stride_ + 1) * stride_; }

int DraftWindow::num_unread(int slot, int last) const { return last + 1 - std::max(model_.length(slot), begin(last)); }

// Cached tokens that end before the window are useless.
void DraftWindow::begin_reading(int slot, int last) {
  if (model_.length(slot) <= begin(last)) model_.start_at(slot, begin(last));
}

int DraftWindow::open(const Sequence& s, int last) {
  begin_reading(s.slot, last);
  const int changed = last < size_ ? 0 : std::max(size_, last / stride_ * stride_);  // the window's first position
  const int num_read = read(s, changed);
  slide(s.slot);
  return num_read;
}

int DraftWindow::read_before(const Sequence& s, int last, int max_tokens) {
  begin_reading(s.slot, last);
  return read(s, std::min(last, model_.length(s.slot) + max_tokens));
}

// Extends the cache to the first `length` tokens.
int DraftWindow::read(const Sequence& s, int length) {
  int num_read = 0;
  while (model_.length(s.slot) < length) {
    slide(s.slot);
    const int cached = model_.length(s.slot);
    cache_tokens(model_, s, std::min(length, end(cached)));
    num_read += model_.length(s.slot) - cached;
  }
  return num_read;
}

// Slides to the window of the next token. A model that cannot slide reads the window again.
void DraftWindow::slide(int slot) {
  const int wanted = begin(model_.length(slot));
  if (wanted > model_.first(slot) && !model_.drop_before(slot, wanted)) model_.start_at(slot, wanted);
}

void DraftWindow::truncate(int slot, int length) {
  if (model_.first(slot) > begin(length)) clear(slot);
  else model_.truncate(slot, length);
}

}  // namespace specdec
