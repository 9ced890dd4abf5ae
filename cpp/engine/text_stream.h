// Turns token bytes into text that can be shown: complete UTF-8 characters, without stop strings.
#pragma once

#include <string>
#include <vector>

namespace specdec {

class TextStream {
 public:
  // Throws ArgumentError for an empty stop string.
  explicit TextStream(std::vector<std::string> stop);

  // Adds the bytes of one token and returns the text that is now final. Holds back an incomplete character, and a
  // suffix that may become a stop string. Bytes that are not UTF-8 become U+FFFD.
  std::string push(const std::string& bytes);

  // Returns the text held back, at the end of generation.
  std::string finish();

  // True once a stop string was found. The text before it has been returned; the text after it is dropped.
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::size_t length);

  std::vector<std::string> stop_;
  std::string bytes_;  // start of an incomplete character
  std::string held_;   // valid text not returned yet
  bool stopped_ = false;
};

}  // namespace specdec
