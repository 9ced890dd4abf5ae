// Mapped parts of files: their bytes, also while private memory takes their place, and what cannot be mapped.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "platform/file.h"
#include "platform/huge_pages.h"
#include "platform/shared_mapping.h"
#include "platform/temporary_folder.h"

using namespace specdec;

namespace {

struct Sample {
  static constexpr std::size_t bytes = 9 * huge_page_bytes + 5000;

  Sample() : words(bytes / sizeof(std::uint64_t)) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x9E3779B97F4A7C15u;
    File file = File::create(path());
    file.write(huge_page_bytes, words.data(), bytes);
  }
  std::string path() const { return (folder.path() / "a").string(); }
  bool is_same(const std::uint8_t* data) const { return std::memcmp(data, words.data(), bytes) == 0; }

  TemporaryFolder folder;
  std::vector<std::uint64_t> words;
};

}  // namespace

TEST(the_bytes_are_those_of_the_file) {
  const Sample sample;
  const auto mapping = SharedMapping::of(sample.path(), huge_page_bytes, Sample::bytes);
  if (mapping == nullptr) return;  // not Linux
  CHECK(reinterpret_cast<std::uintptr_t>(mapping->data()) % huge_page_bytes == 0);
  CHECK(mapping->populate(0, Sample::bytes) && sample.is_same(mapping->data()));
  std::filesystem::remove(sample.path());
  CHECK(sample.is_same(mapping->data()));
}

TEST(only_a_file_of_this_size_is_mapped) {
  const Sample sample;
  for (const std::size_t bytes : {Sample::bytes - 1, Sample::bytes + 1, std::size_t{0}})
    CHECK(SharedMapping::of(sample.path(), huge_page_bytes, bytes) == nullptr);
  if (has_huge_pages())
    CHECK_THROWS(SharedMapping::of(sample.path() + "b", huge_page_bytes, 1), Error, "cannot be opened");
}

TEST(private_memory_takes_the_place_while_others_read) {
  const Sample sample;
  const auto mapping = SharedMapping::of(sample.path(), huge_page_bytes, Sample::bytes);
  if (mapping == nullptr) return;
  std::atomic<bool> is_done{false}, was_same{true};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!is_done) {
        if (!sample.is_same(mapping->data())) was_same = false;
      }
    });
  }
  for (std::size_t at = 0; at < 9; ++at) CHECK(mapping->make_private(at * huge_page_bytes, huge_page_bytes));
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(was_same && sample.is_same(mapping->data()));
  // What other programs write there now is not seen.
  File::open_or_create(sample.path()).write(huge_page_bytes, "other", 5);
  CHECK(sample.is_same(mapping->data()));
}

TEST_MAIN()
