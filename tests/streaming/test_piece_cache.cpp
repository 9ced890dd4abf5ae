// Every piece that an operation takes has the file's bytes, whatever operations choose, expect or leave, with any
// number of slots, readers and threads, and with reads that fail. What is used most stays.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/parallel.h"
#include "check.h"
#include "platform/temporary_folder.h"
#include "streaming/piece_cache.h"

using specdec::File;
using specdec::FileRange;
using specdec::idx;
using specdec::PieceCache;

namespace {

std::uint8_t byte_at(std::uint64_t offset) { return static_cast<std::uint8_t>(offset * 2654435761u >> 13); }

// Pieces of two sizes, every third one large.
class Experts {
 public:
  explicit Experts(int count) : path_((folder_.path() / "experts").string()) {
    std::uint64_t offset = 17;
    for (int i = 0; i < count; ++i) {
      pieces_.push_back({0, offset, i % 3 == 0 ? large : small});
      offset += pieces_.back().bytes;
    }
    write(offset);
  }
  void write(std::uint64_t bytes) const {
    std::string content;
    for (std::uint64_t at = 0; at < bytes; ++at) content += static_cast<char>(byte_at(at));
    File::open_or_create(path_).write(0, content.data(), content.size());
  }

  static constexpr std::size_t large = 9000, small = 5000;
  const std::string& path() const { return path_; }
  const std::vector<FileRange>& pieces() const { return pieces_; }

  // One operation: each thread takes all pieces in order. Returns false if one could not be read.
  bool use(PieceCache& cache, const std::vector<int>& chosen, int num_threads) const {
    cache.begin(chosen, num_threads);
    std::atomic<bool> is_read{true};
    specdec::for_each_piece(num_threads, num_threads, [&](std::int64_t) {
      for (const int piece : chosen) {
        const std::uint8_t* const data = cache.take(piece);
        if (data == nullptr) {
          is_read = false;
          continue;
        }
        const FileRange& expected = pieces_[idx(piece)];
        for (std::size_t byte = 0; byte < expected.bytes; byte += 7)
          CHECK(data[byte] == byte_at(expected.offset + byte));
        cache.give_back(piece);
      }
    });
    return is_read;
  }

 private:
  specdec::TemporaryFolder folder_;
  std::string path_;
  std::vector<FileRange> pieces_;
};

std::vector<int> some_of(int count, int share, std::mt19937& random) {
  std::vector<int> chosen;
  for (int i = 0; i < count; ++i) {
    if (static_cast<int>(random() % 100) < share) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace

TEST(pieces_have_the_bytes_of_the_file_whatever_operations_do) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int count = 2 + static_cast<int>(random() % 40), num_threads = 1 + static_cast<int>(random() % 4);
    const Experts experts(count);
    const std::size_t least = PieceCache::least_slots(num_threads);
    PieceCache cache(experts.pieces(),
                     {{Experts::small, least + random() % 5}, {Experts::large, least + random() % 5}});
    cache.start({experts.path()}, 1 + static_cast<int>(random() % 4));
    for (int operation = 0; operation < 40; ++operation) {
      const std::vector<int> chosen = some_of(count, static_cast<int>(random() % 101), random);
      if (random() % 4 == 0) {  // a cancelled operation: nothing is taken
        cache.begin(chosen, num_threads);
        continue;
      }
      if (random() % 3 == 0) cache.expect(some_of(count, 20, random));
      CHECK(experts.use(cache, chosen, num_threads));
      if (random() % 3 == 0) cache.expect(some_of(count, 20, random));
    }
    CHECK(cache.take_problem().empty());
  }
}

TEST(what_is_used_most_stays_while_others_pass_through) {
  const Experts experts(60);
  const std::vector<int> often{1, 2, 3, 6};
  std::vector<int> all;
  for (int i = 0; i < 60; ++i) all.push_back(i);
  for (int round = 0; round < 50; ++round) {
    PieceCache cache(experts.pieces(), {{Experts::small, 10}, {Experts::large, 10}});
    cache.start({experts.path()}, 2);
    for (int i = 0; i < 20; ++i) CHECK(experts.use(cache, often, 2));
    CHECK(experts.use(cache, all, 2));  // as a prompt does
    const std::uint64_t before = cache.counts().missed;
    CHECK(experts.use(cache, often, 2));
    CHECK(cache.counts().missed == before);
  }
}

TEST(pieces_that_are_there_at_first_are_not_read) {
  const Experts experts(9);
  PieceCache cache(experts.pieces(), {{Experts::small, 6}, {Experts::large, 3}});
  for (int piece = 0; piece < 9; ++piece) {
    std::uint8_t* const memory = cache.fill(piece);
    for (std::size_t byte = 0; byte < experts.pieces()[idx(piece)].bytes; ++byte)
      memory[byte] = byte_at(experts.pieces()[idx(piece)].offset + byte);
  }
  CHECK(cache.fill(0) == nullptr);  // there is no room
  cache.start({experts.path()}, 1);
  CHECK(experts.use(cache, {0, 1, 2, 8}, 2));
  CHECK(cache.counts().bytes_read == 0 && cache.counts().missed == 0 && cache.counts().used == 4);
}

TEST(a_file_that_became_shorter_is_an_error_until_it_is_whole_again) {
  const Experts experts(30);
  PieceCache cache(experts.pieces(), {{Experts::small, 6}, {Experts::large, 6}});
  cache.start({experts.path()}, 4);
  std::vector<int> all;
  for (int i = 0; i < 30; ++i) all.push_back(i);
  CHECK(experts.use(cache, all, 2));
  const std::uintmax_t size = std::filesystem::file_size(experts.path());
  for (int round = 0; round < 100; ++round) {
    std::filesystem::resize_file(experts.path(), 20000);
    CHECK(!experts.use(cache, all, 2));
    CHECK(cache.has_failed());
    CHECK(cache.take_problem().find("became shorter") != std::string::npos);
    experts.write(size);
    cache.take_problem();
    CHECK(experts.use(cache, all, 2));
    CHECK(cache.take_problem().empty());
  }
}

TEST_MAIN()
