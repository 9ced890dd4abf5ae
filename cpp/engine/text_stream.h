// Token bytes in, text that is safe to show out: whole UTF-8 characters, nothing of a stop string.
#pragma once

#include <string>
#include <vector>

namespace specdec {

class TextStream {
 public:
  // Throws std::invalid_argument for an empty stop string.
  explicit TextStream(std::vector<std::string> stop);

  // Adds the bytes of one token and returns the text that is now certain. Held back: an incomplete character, and a tail
  // that may yet become a stop string. Bytes that are not UTF-8 become U+FFFD.
  std::string push(const std::string& bytes);

  // What was held back, once nothing follows.
  std::string finish();

  // True once a stop string was seen; the text before it has been returned, what follows is dropped.
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::size_t length);

  std::vector<std::string> stop_;
  std::string bytes_;  // start of an incomplete character
  std::string held_;   // valid text not returned yet
  bool stopped_ = false;
};

}  // namespace specdec
