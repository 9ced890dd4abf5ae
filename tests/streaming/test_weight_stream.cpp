// Every part that a pass takes has the file's bytes, whatever passes do: other orders than the first one, matrices left
// out, cancelled passes, any number of slots, readers and threads, reads that fail.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "check.h"
#include "platform/temporary_folder.h"
#include "streaming/weight_stream.h"

using specdec::File;
using specdec::StreamedPart;
using specdec::WeightStream;

namespace {

constexpr std::int64_t rows_of_chunk = 3;

std::uint8_t byte_at(std::uint64_t offset) { return static_cast<std::uint8_t>(offset * 2654435761u >> 13); }

// A file with parts of matrices in it, and passes over them.
class Weights {
 public:
  Weights(std::mt19937& random, int num_matrices) : path_((folder_.path() / "weights").string()) {
    std::uint64_t offset = 1 + random() % 100;
    for (int matrix = 0; matrix < num_matrices; ++matrix) {
      first_.push_back(static_cast<int>(parts_.size()));
      for (std::uint64_t part = 0, count = 1 + random() % 5; part < count; ++part) {
        const std::size_t bytes = 1 + random() % 20000;
        parts_.push_back({0, offset, bytes, matrix, static_cast<int>(1 + random() % 20)});
        offset += bytes + random() % 50;
      }
    }
    first_.push_back(static_cast<int>(parts_.size()));
    std::string content;
    for (std::uint64_t at = 0; at < offset; ++at) content += static_cast<char>(byte_at(at));
    File::create(path_).write(0, content.data(), content.size());
  }

  const std::string& path() const { return path_; }
  const std::vector<StreamedPart>& parts() const { return parts_; }

  // One operation: threads take the parts of a matrix in chunks of units, as kernels do. Returns false if a part could
  // not be read.
  bool multiply(WeightStream& stream, int matrix, int num_threads) const {
    struct Chunk {
      int part, units;
    };
    std::vector<Chunk> chunks;
    for (int part = first_[static_cast<std::size_t>(matrix)]; part < first_[static_cast<std::size_t>(matrix) + 1];
         ++part) {
      for (std::int64_t left = at(part).num_units; left > 0; left -= rows_of_chunk)
        chunks.push_back({part, static_cast<int>(std::min(left, rows_of_chunk))});
    }
    stream.begin(matrix);
    std::atomic<bool> is_read{true};
    specdec::for_each_piece(num_threads, static_cast<std::int64_t>(chunks.size()), [&](std::int64_t i) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
      const std::uint8_t* const data = stream.take(chunk.part);
      if (data == nullptr) {
        is_read = false;
        return;
      }
      for (std::size_t byte = 0; byte < at(chunk.part).bytes; ++byte)
        CHECK(data[byte] == byte_at(at(chunk.part).offset + byte));
      stream.give_back(chunk.part, chunk.units);
    });
    return is_read;
  }

 private:
  const StreamedPart& at(int part) const { return parts_[static_cast<std::size_t>(part)]; }

  specdec::TemporaryFolder folder_;
  std::string path_;
  std::vector<StreamedPart> parts_;
  std::vector<int> first_;  // by matrix, and the end
};

}  // namespace

TEST(parts_have_the_bytes_of_the_file_whatever_passes_do) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int num_matrices = 1 + static_cast<int>(random() % 9), num_threads = 1 + static_cast<int>(random() % 4);
    const Weights weights(random, num_matrices);
    WeightStream stream({weights.path()}, weights.parts(),
                        {1 + static_cast<int>(random() % 6), 1 + static_cast<int>(random() % 4)});
    std::vector<int> order(static_cast<std::size_t>(num_matrices));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (int pass = 0; pass < 12; ++pass) {
      if (random() % 8 == 0) std::shuffle(order.begin(), order.end(), random);
      const std::size_t end = random() % 4 == 0 ? random() % order.size() : order.size();  // cancelled
      for (std::size_t i = 0; i < end; ++i) {
        if (random() % 10 == 0) continue;  // left out
        CHECK(weights.multiply(stream, order[i], num_threads));
        if (random() % 20 == 0) CHECK(weights.multiply(stream, order[i], num_threads));  // a matrix used twice
      }
    }
    CHECK(stream.take_problem().empty());
  }
}

TEST(once_the_order_is_known_nothing_is_read_twice) {
  std::mt19937 random(7);
  const Weights weights(random, 6);
  WeightStream stream({weights.path()}, weights.parts(), {4, 2});
  const int order[] = {3, 1, 5, 0, 2, 4};
  const auto pass = [&] {
    for (const int matrix : order) CHECK(weights.multiply(stream, matrix, 2));
  };
  pass();
  pass();  // its beginning shows that the first one is over
  const std::uint64_t before = stream.counts().bytes_read;
  constexpr int num_passes = 20;
  for (int i = 0; i < num_passes; ++i) pass();
  std::uint64_t bytes = 0, largest = 0;
  for (const StreamedPart& part : weights.parts()) {
    bytes += part.bytes;
    largest = std::max<std::uint64_t>(largest, part.bytes);
  }
  CHECK(stream.counts().bytes_read - before <= num_passes * bytes + 4 * largest);  // some are read ahead
}

TEST(a_file_that_became_shorter_is_an_error_until_it_is_whole_again) {
  std::mt19937 random(3);
  const Weights weights(random, 5);
  WeightStream stream({weights.path()}, weights.parts(), {6, 4});
  const auto pass = [&] {
    bool is_read = true;
    for (int matrix = 0; matrix < 5; ++matrix) is_read = weights.multiply(stream, matrix, 2) && is_read;
    return is_read;
  };
  CHECK(pass());
  const std::uintmax_t size = std::filesystem::file_size(weights.path());
  std::string content;
  for (std::uint64_t at = 0; at < size; ++at) content += static_cast<char>(byte_at(at));
  for (int round = 0; round < 50; ++round) {
    std::filesystem::resize_file(weights.path(), size / 2);
    CHECK(!pass());
    CHECK(stream.has_failed());
    CHECK(stream.take_problem().find("became shorter") != std::string::npos);
    CHECK(!pass());
    File::open_or_create(weights.path()).write(0, content.data(), content.size());
    CHECK(!stream.take_problem().empty());
    CHECK(pass());
    CHECK(pass());
    CHECK(stream.take_problem().empty());
  }
}

TEST(it_ends_while_parts_are_read_ahead) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const Weights weights(random, 3);
    WeightStream stream({weights.path()}, weights.parts(), {3, 3});
    if (seed % 2 == 0) CHECK(weights.multiply(stream, 0, 1));
  }
}

TEST_MAIN()
