// A text as models read it: its places hold tokens, or the rows of pictures. Prompts, committed sequences and the keys
// of prefixes are texts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/token.h"

namespace specdec {

// Stands in a list of tokens at each place of a picture. No vocabulary, mask or index of text has it.
inline constexpr Token in_picture = -1;

// The rows that a model reads for a picture, instead of embeddings of tokens.
class PictureRows {
 public:
  virtual ~PictureRows() = default;

  // [num_rows][row size of the model]. Computed by the first call, on the thread that runs the models. Throws
  // ModelError.
  virtual const float* rows() const = 0;
  // Of a row, if the picture begins at position `begin`. Models with one axis read only the first number; M-RoPE has
  // time, height and width, and a fourth of the model's own.
  virtual std::array<int, 4> position(int row, int begin) const = 0;
  // false: each row attends to all rows of the picture, so they are read in one pass.
  virtual bool is_causal() const = 0;
};

struct Picture {
  int place = 0;                            // of its first row in the text
  int num_rows = 0;                         // one place each
  int num_positions = 0;                    // that it takes; fewer than rows under M-RoPE
  std::string key;                          // of pixels and projector: equal keys, equal rows
  std::shared_ptr<const PictureRows> rows;  // null: the picture is known by its key only

  int end() const { return place + num_rows; }
};

struct Text {
  std::vector<Token> tokens;
  std::vector<Picture> pictures;  // in the order of their places, which `tokens` marks with in_picture

  Text() = default;
  Text(std::vector<Token> tokens_) : tokens(std::move(tokens_)) {}  // without pictures

  int length() const { return static_cast<int>(tokens.size()); }
  void add(Picture picture) {
    picture.place = length();
    tokens.insert(tokens.end(), idx(picture.num_rows), in_picture);
    pictures.push_back(std::move(picture));
  }
};

// The first picture that ends after `place`; null: there is none.
inline const Picture* picture_from(const std::vector<Picture>& pictures, int place) {
  const auto found =
      std::find_if(pictures.begin(), pictures.end(), [&](const Picture& picture) { return picture.end() > place; });
  return found == pictures.end() ? nullptr : &*found;
}

// The end of the last picture that ends at `place` or before it; `begin` if there is none. Pictures ascend.
template <class Pictures>
int end_of_picture_before(const Pictures& pictures, int place, int begin) {
  for (const auto& picture : pictures) {
    if (picture.end() > place) break;
    begin = picture.end();
  }
  return begin;
}

// `length`, or the place of the picture that it would cut.
inline int whole_pictures(const std::vector<Picture>& pictures, int length) {
  const Picture* const picture = picture_from(pictures, length);
  return picture == nullptr ? length : std::min(length, picture->place);
}

// How many places both begin with, at most `most`; only whole pictures.
int common_prefix(const Text& a, const Text& b, int most);
inline bool begins_with(const Text& text, const Text& prefix) {
  return prefix.length() <= text.length() && common_prefix(text, prefix, prefix.length()) == prefix.length();
}

// The first `length` places, without the rows of pictures.
Text prefix_of(const Text& text, int length);

}  // namespace specdec
