#include "engine/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/argument.h"
#include "base/utf8.h"

namespace specdec {
namespace {

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
std::size_t partial_match(const std::string& text, const std::string& stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.compare(text.size() - length, length, stop, 0, length) == 0) return length;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stop) : stop_(std::move(stop)) {
  for (const std::string& s : stop_) {
    if (s.empty()) throw ArgumentError("stop", "has an empty string; each must have at least one character");
  }
  bytes_.reserve(256);  // longer than a token and a stop string usually are, so that tokens do not allocate
  held_.reserve(256);
}

std::string TextStream::push(const std::string& bytes) {
  if (stopped_) return {};
  bytes_ += bytes;
  decode_utf8(bytes_, held_);

  std::size_t end = std::string::npos, hold = 0;
  for (const std::string& s : stop_) {
    end = std::min(end, held_.find(s));
    hold = std::max(hold, partial_match(held_, s));
  }
  if (end == std::string::npos) return release(held_.size() - hold);
  stopped_ = true;
  bytes_.clear();
  held_.resize(end);
  return release(end);
}

std::string TextStream::finish() {
  held_ += valid_utf8(bytes_);
  bytes_.clear();
  return release(held_.size());
}

std::string TextStream::release(std::size_t length) {
  std::string text = held_.substr(0, length);
  held_.erase(0, length);
  return text;
}

}  // namespace specdec
