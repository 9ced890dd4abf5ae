// Texts with pictures: what two begin with, and where they may be cut.
#include <string>

#include "check.h"
#include "speculative/text.h"

namespace {

using namespace specdec;

Picture picture_of(const std::string& key, int num_rows) {
  Picture picture;
  picture.key = key;
  picture.num_rows = picture.num_positions = num_rows;
  return picture;
}

// "1 2 [A A A] 3 [B B] 4"
Text example(const std::string& first = "A", const std::string& second = "B", int rows_of_second = 2) {
  Text text(std::vector<Token>{1, 2});
  text.add(picture_of(first, 3));
  text.tokens.push_back(3);
  text.add(picture_of(second, rows_of_second));
  text.tokens.push_back(4);
  return text;
}

}  // namespace

TEST(a_picture_takes_places) {
  const Text text = example();
  const std::vector<Token> tokens = {1, 2, in_picture, in_picture, in_picture, 3, in_picture, in_picture, 4};
  CHECK(text.tokens == tokens);
  CHECK(text.pictures[0].place == 2 && text.pictures[0].end() == 5);
  CHECK(text.pictures[1].place == 6 && text.pictures[1].end() == 8);
  const Picture* const first = text.pictures.data();
  CHECK(picture_from(text.pictures, 0) == first && picture_from(text.pictures, 4) == first);
  CHECK(picture_from(text.pictures, 5) == first + 1 && picture_from(text.pictures, 8) == nullptr);
}

TEST(pictures_are_the_same_by_their_keys) {
  const Text text = example();
  CHECK(common_prefix(text, example(), 100) == 9);
  CHECK(common_prefix(text, example("C", "B"), 100) == 2);
  CHECK(common_prefix(text, example("A", "C"), 100) == 6);
  CHECK(common_prefix(text, example("A", "B", 1), 100) == 6);  // with another number of rows
  CHECK(common_prefix(text, example("A", "B", 4), 100) == 6);
  const Text plain(std::vector<Token>{1, 2, 3});
  CHECK(common_prefix(text, plain, 100) == 2 && common_prefix(plain, text, 100) == 2);
  CHECK(!begins_with(text, example("C")) && begins_with(text, prefix_of(text, 6)) && begins_with(text, Text()));
}

TEST(no_picture_is_cut) {
  const Text text = example();
  const int wanted[] = {0, 1, 2, 2, 2, 5, 6, 6, 8, 9};
  for (int length = 0; length <= 9; ++length) {
    CHECK(whole_pictures(text.pictures, length) == wanted[length]);
    CHECK(common_prefix(text, example(), length) == wanted[length]);
  }
  const Text prefix = prefix_of(text, 6);
  CHECK(prefix.length() == 6 && prefix.pictures.size() == 1 && prefix.pictures[0].rows == nullptr);
}

TEST_MAIN()
