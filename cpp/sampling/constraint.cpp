#include "sampling/constraint.h"

#include <algorithm>
#include <exception>

#include "base/index.h"

namespace specdec::sampling {

const TokenMask& ConstraintState::mask(const Token* tokens, int length) {
  const Token* const output = tokens + start_;
  const int size = length - start_;
  if (!failure_.empty()) return nothing_;
  try {
    const auto common = std::mismatch(read_.begin(), read_.end(), output, output + size).first - read_.begin();
    KeptMask& kept = masks_[idx(size % num_kept)];
    if (common == size && kept.length == size) return kept.mask;
    roll_back(static_cast<int>(common));
    if (!read(output, size)) return nothing_;
    kept.length = -1;
    kept.mask.fill(constraint_->vocabulary_size(), [this](std::uint32_t* words) { constraint_->write_mask(words); });
    kept.length = size;
    return kept.mask;
  } catch (const std::exception& error) {
    failure_ = std::string("the constraint failed: ") + error.what();
    return nothing_;
  }
}

bool ConstraintState::read(const Token* output, int length) {
  for (auto place = static_cast<int>(read_.size()); place < length; ++place) {
    if (!constraint_->advance(output[place])) return false;
    read_.push_back(output[place]);
  }
  return true;
}

// Masks after the place that this rolls back to belong to other tokens.
void ConstraintState::roll_back(int length) {
  if (length == static_cast<int>(read_.size())) return;
  constraint_->truncate(length);
  read_.resize(idx(length));
  for (KeptMask& kept : masks_) {
    if (kept.length > length) kept.length = -1;
  }
}

}  // namespace specdec::sampling
