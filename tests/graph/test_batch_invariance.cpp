// Logits do not depend on how a sequence is split into passes, nor on the number of threads: bit for bit.
//
// Passes of 1 to 8 tokens and of 64 (more queries than the longest scoring pass), over 544 positions: past cell 257,
// where llama.cpp's own attention splits the cache for single queries, and past 512.

#include <cstring>

#include "check.h"
#include "llama/context.h"

namespace {

using namespace specdec;
using Logits = std::vector<float>;

constexpr int length = 544, vocabulary = 4096;

std::vector<Token> text() {
  std::vector<Token> tokens{0};
  for (unsigned i = 1; i < length; ++i) tokens.push_back(static_cast<Token>((i * 2654435761u >> 16) % vocabulary));
  return tokens;
}

// All rows of logits [length, vocabulary], the text read in passes of `cut(i)` tokens.
template <class Cut>
Logits logits_of(const std::shared_ptr<const Model>& model, int num_threads, Cut cut, KvType kv_type = KvType::f16) {
  Context::Options options;
  options.context_length = 1024;
  options.kv_type = kv_type;
  Context context(model, std::make_shared<ThreadPool>(num_threads), options);
  const std::vector<Token> tokens = text();
  Logits all;
  for (int at = 0, pass = 0; at < length; ++pass) {
    const int count = std::min(cut(pass), length - at);
    context.decode({{0, tokens.data() + at, count, count}});
    for (int row = 0; row < count; ++row) all.insert(all.end(), context.logits(row), context.logits(row) + vocabulary);
    at += count;
  }
  return all;
}

// The first position at which two runs differ, or -1.
int first_difference(const Logits& a, const Logits& b) {
  for (int i = 0; i < length; ++i) {
    const std::size_t row = static_cast<std::size_t>(i) * vocabulary;
    if (std::memcmp(a.data() + row, b.data() + row, vocabulary * sizeof(float)) != 0) return i;
  }
  return -1;
}

void check_invariant(const char* file) {
  const auto model = std::make_shared<const Model>(std::string(MODELS) + file);
  const Logits one_by_one = logits_of(model, 1, [](int) { return 1; });
  const auto check_passes = [&](int size, int num_threads) {
    const int at = first_difference(one_by_one, logits_of(model, num_threads, [size](int) { return size; }));
    if (at < 0) return;
    check::fail(__FILE__, __LINE__,
                std::string(file) + ": passes of " + std::to_string(size) + " on " + std::to_string(num_threads) +
                    " threads differ from position " + std::to_string(at));
  };
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 64}) check_passes(size, 1 + size % 2);
  for (const int size : {8, 64}) check_passes(size, 2);
  for (const int num_threads : {1, 2})
    CHECK(first_difference(one_by_one, logits_of(model, num_threads, [](int pass) { return 1 + pass * 5 % 8; })) == -1);
}

}  // namespace

TEST(target_in_f16) { check_invariant("stdlib-target-f16.gguf"); }
TEST(draft_in_f16) { check_invariant("stdlib-draft-f16.gguf"); }

TEST(target_with_keys_and_values_in_8_bits) {
  const auto model = std::make_shared<const Model>(std::string(MODELS) + "stdlib-target-f16.gguf");
  const Logits expected = logits_of(model, 2, [](int) { return 8; }, KvType::q8_0);
  CHECK(first_difference(expected, logits_of(model, 2, [](int) { return 8; })) == 0);  // another cache, other logits
  for (const int size : {1, 3, 64})
    CHECK(first_difference(expected, logits_of(model, 1 + size % 2, [size](int) { return size; }, KvType::q8_0)) == -1);
}

TEST_MAIN()
