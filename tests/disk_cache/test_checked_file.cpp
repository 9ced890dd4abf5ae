// The hash of our own files: the same for any pieces, another one after any change.
#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "disk_cache/checked_file.h"

using namespace specdec;

namespace {

std::string hash_of(const std::string& bytes) {
  ContentHash hash;
  hash.add(bytes.data(), bytes.size());
  return hash.text();
}

std::string sample(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
  return bytes;
}

}  // namespace

TEST(pieces_do_not_matter) {
  for (const std::size_t size : {0u, 1u, 31u, 32u, 33u, 64u, 1000u}) {
    const std::string bytes = sample(size);
    for (std::size_t step = 1; step < 70; ++step) {
      ContentHash hash;
      for (std::size_t at = 0; at < size; at += step) hash.add(bytes.data() + at, std::min(step, size - at));
      CHECK(hash.text() == hash_of(bytes));
    }
  }
}

TEST(every_change_matters) {
  const std::string bytes = sample(300), hash = hash_of(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      CHECK(hash_of(changed) != hash);
    }
    CHECK(hash_of(bytes.substr(0, i)) != hash);
  }
  CHECK(hash_of(bytes + '\0') != hash);
}

TEST_MAIN()
