// What the fuzzers change gets past the reader often enough, and whatever gets past ours gets past llama.cpp's, too:
// otherwise they would test rejections only.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>

#include "base/error.h"
#include "check.h"
#include "edited_model.h"
#include "gguf.h"
#include "gguf/gguf_file.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) { return size; }

using namespace specdec;

namespace {

struct Counts {
  int tried = 0, read = 0, read_by_llama_cpp = 0;
};

bool is_read(const std::string& path) {
  try {
    GgufFile::read(path);
  } catch (const ModelError&) {
    return false;
  }
  return true;
}

bool is_read_by_llama_cpp(const std::string& path) {
  struct Free {
    void operator()(gguf_context* file) const { gguf_free(file); }
  };
  return std::unique_ptr<gguf_context, Free>(gguf_init_from_file(path.c_str(), {true, nullptr})) != nullptr;
}

// The counts of `tried` files with one edit of this kind.
Counts count(std::size_t kind, int tried) {
  std::minstd_rand random(static_cast<unsigned>(kind) + 1);
  Counts counts;
  for (; counts.tried < tried; ++counts.tried) {
    std::uint8_t input[9];
    std::generate(std::begin(input), std::end(input), [&] { return static_cast<std::uint8_t>(random() >> 8); });
    input[1] = static_cast<std::uint8_t>(kind);
    const std::string path = fuzz::write_edited_model(input, sizeof input);
    if (!is_read(path)) continue;
    ++counts.read;
    counts.read_by_llama_cpp += is_read_by_llama_cpp(path) ? 1 : 0;
  }
  return counts;
}

}  // namespace

TEST(most_changed_files_reach_llama_cpp) {
  int all = 0, read = 0;
  for (std::size_t kind = 0; kind < std::size(fuzz::names_of_edits); ++kind) {
    const Counts counts = count(kind, 120);
    const std::string name = fuzz::names_of_edits[kind];
    std::printf("%-12s %3d of %d are read by us, %3d of these by llama.cpp\n", name.c_str(), counts.read, counts.tried,
                counts.read_by_llama_cpp);
    all += counts.tried;
    read += counts.read;
    if (name == "type" || name == "shape") CHECK(counts.read_by_llama_cpp > counts.tried / 3);
    if (name == "drop" || name == "rename" || name == "weight") CHECK(counts.read_by_llama_cpp == counts.tried);
    if (name != "offset" && name != "flip") CHECK(counts.read_by_llama_cpp >= counts.read * 9 / 10);
  }
  std::printf("%d of %d are read by us\n", read, all);
  CHECK(read > all / 2);
}

TEST_MAIN()
