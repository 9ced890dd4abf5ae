#include "speculative/text.h"

namespace specdec {

int common_prefix(const Text& a, const Text& b, int most) {
  most = std::clamp(most, 0, std::min(a.length(), b.length()));
  const auto different = std::mismatch(a.tokens.begin(), a.tokens.begin() + most, b.tokens.begin()).first;
  int length = static_cast<int>(different - a.tokens.begin());
  for (std::size_t i = 0; i < std::min(a.pictures.size(), b.pictures.size()); ++i) {
    const Picture &one = a.pictures[i], &other = b.pictures[i];
    const bool is_same = one.place == other.place && one.num_rows == other.num_rows && one.key == other.key;
    if (!is_same) length = std::min({length, one.place, other.place});
  }
  return whole_pictures(b.pictures, whole_pictures(a.pictures, length));
}

Text prefix_of(const Text& text, int length) {
  Text prefix(std::vector<Token>(text.tokens.begin(), text.tokens.begin() + length));
  for (const Picture& picture : text.pictures) {
    if (picture.end() > length) break;
    prefix.pictures.push_back(picture);
    prefix.pictures.back().rows.reset();
  }
  return prefix;
}

}  // namespace specdec
