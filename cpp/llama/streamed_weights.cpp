#include "llama/streamed_weights.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/parallel.h"
#include "ggml.h"
#include "llama/matrices.h"
#include "llama/tile_file.h"
#include "llama/tile_memory.h"
#include "platform/memory.h"
#include "streaming/direct_reads.h"
#include "streaming/residency.h"

namespace specdec {
namespace {

constexpr std::int64_t unit_rows = 16;  // kernels multiply that many; parts consist of them
constexpr std::size_t largest_part = std::size_t{2} << 20, smallest_part = std::size_t{16} << 10;
constexpr std::uint64_t parts_of_a_model = 256;  // at least, of a small one
constexpr int num_slots = 12, num_readers = 4;
constexpr std::size_t alignment = 64;  // of a part in memory
constexpr std::size_t measured_parts = 32;  // for the speed of reading
constexpr std::size_t file_of_tiles = 0;    // others: the model's, from 1

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A matrix that can be streamed, in the layout that its kernel reads.
struct Source {
  ggml_tensor* weights;
  bool is_tiled, is_output;

  std::int64_t rows() const { return weights->ne[1]; }
  // Before a row that begins a unit, or of all rows. Tiles are padded to whole ones.
  std::uint64_t bytes_before(std::int64_t row) const {
    const std::int64_t units = (row + unit_rows - 1) / unit_rows;
    return is_tiled ? idx(units) * bytes_of_tile(weights, weights->type) : idx(row) * weights->nb[1];
  }
  std::uint64_t bytes() const { return bytes_before(rows()); }
};

// In the order of the first pass as far as it is known: the output comes last.
std::vector<Source> sources_of(const llama_model* model) {
  std::vector<Source> sources;
  for (const auto& [weights, is_output] : matrices_of(model)) {
    const bool is_single = weights->ne[1] > 1 && weights->ne[2] == 1 && weights->ne[3] == 1;
    if (!is_single || weights->view_src != nullptr || !ggml_is_contiguous(weights) || !has_our_products(weights))
      continue;
    const bool is_tiled = can_have_tiles(weights, weights->type);
    if (is_tiled || !is_block_type(weights->type)) sources.push_back({weights, is_tiled, is_output});
  }
  std::stable_partition(sources.begin(), sources.end(), [](const Source& source) { return !source.is_output; });
  return sources;
}

std::uint64_t total_of(const std::vector<Source>& sources) {
  return std::accumulate(sources.begin(), sources.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Source& source) { return sum + source.bytes(); });
}

struct Part {
  std::size_t source;
  std::int64_t begin, end;  // rows
  std::size_t file;
  std::uint64_t offset;
  std::size_t bytes;
  bool stays = true;
  std::size_t at = 0;  // in the memory of what stays
};

std::pair<std::size_t, std::uint64_t> place_in_files(const std::vector<GgufFile>& files, const char* name) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const GgufTensor& tensor : files[i].tensors) {
      if (tensor.name == name) return {i + 1, tensor.offset};
    }
  }
  throw Error(files.front().path + ": the tensor " + name + " is not where the header has it; load the model again");
}

class Division {
 public:
  Division(const llama_model* model, const std::vector<GgufFile>& files, bool resident_output)
      : sources_(sources_of(model)), part_bytes_(part_bytes()), resident_output_(resident_output) {
    std::uint64_t tiles_at = tile_file_start();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const Source& source = sources_[i];
      const auto [file, offset] =
          source.is_tiled ? std::pair(file_of_tiles, tiles_at) : place_in_files(files, source.weights->name);
      if (source.is_tiled) tiles_at += source.bytes();
      const std::int64_t rows = rows_of_part(source);
      for (std::int64_t begin = 0; begin < source.rows(); begin += rows) {
        const std::int64_t end = std::min(source.rows(), begin + rows);
        const std::uint64_t first = source.bytes_before(begin), last = source.bytes_before(end);
        parts_.push_back({i, begin, end, file, offset + first, static_cast<std::size_t>(last - first)});
        largest_ = std::max(largest_, parts_.back().bytes);
      }
    }
  }

  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<Part>& parts() const { return parts_; }

  std::vector<TileCopy> copies() const {
    std::vector<TileCopy> copies;
    for (const Source& source : sources_) {
      if (source.is_tiled) copies.push_back({source.weights, source.weights->type});
    }
    return copies;
  }

  std::int64_t rows_of_part(const Source& source) const {
    const std::uint64_t count = std::max<std::uint64_t>(1, rounded_up(source.bytes(), part_bytes_) / part_bytes_);
    const auto rows = rounded_up(static_cast<std::uint64_t>(source.rows()), count) / count;
    return static_cast<std::int64_t>(rounded_up(rows, unit_rows));
  }

  std::uint64_t slots_bytes() const { return num_slots * direct_bytes_for(largest_); }

  std::uint64_t least_memory() const {
    std::uint64_t bytes = slots_bytes();
    for (const Part& part : parts_) bytes += may_go(part) ? 0 : rounded_up(part.bytes, alignment);
    return bytes;
  }

  // Decides what stays.
  StreamedBytes choose(std::uint64_t memory) {
    StreamedBytes bytes;
    std::vector<ResidencyPart> candidates;
    for (const Part& part : parts_) {
      bytes.total += part.bytes;
      resident_bytes_ += rounded_up(part.bytes, alignment);
      candidates.push_back({part.bytes, may_go(part)});
    }
    if (resident_bytes_ > memory) bytes.slots = slots_bytes();
    const std::uint64_t needed = resident_bytes_ + bytes.slots;
    const std::vector<bool> stays = parts_that_stay(candidates, needed > memory ? needed - memory : 0);
    resident_bytes_ = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      part.stays = stays[i];
      part.at = resident_bytes_;
      if (!part.stays) continue;
      bytes.stay += part.bytes;
      resident_bytes_ += rounded_up(part.bytes, alignment);
    }
    return bytes;
  }
  std::size_t resident_bytes() const { return resident_bytes_; }  // with padding, after choose()

 private:
  std::size_t part_bytes() const {
    return std::clamp(static_cast<std::size_t>(total_of(sources_) / parts_of_a_model), smallest_part, largest_part);
  }
  // A small matrix is not worth a read of its own.
  bool may_go(const Part& part) const {
    return part.bytes >= part_bytes_ / 4 && !(sources_[part.source].is_output && resident_output_);
  }

  std::vector<Source> sources_;
  std::size_t part_bytes_, largest_ = 0, resident_bytes_ = 0;
  bool resident_output_;
  std::vector<Part> parts_;  // in the order of sources
};

// Copies parts that stay out of the file of tiles, which is read whole, since its hashes are of pieces of it.
class TileReceiver {
 public:
  TileReceiver(const std::vector<Part>& parts, std::uint8_t* memory) : memory_(memory) {
    for (const Part& part : parts) {
      if (part.file == file_of_tiles) parts_.push_back(&part);
    }
  }

  // For any thread.
  void receive(std::uint64_t offset, const std::uint8_t* data, std::size_t count) const {
    const std::uint64_t end = offset + count;
    auto part = std::upper_bound(parts_.begin(), parts_.end(), offset,
                                 [](std::uint64_t place, const Part* other) { return place < other->offset; });
    if (part != parts_.begin()) --part;
    for (; part != parts_.end() && (*part)->offset < end; ++part) {
      const std::uint64_t first = std::max(offset, (*part)->offset), last = std::min(end, (*part)->offset + (*part)->bytes);
      if (!(*part)->stays || first >= last) continue;
      std::memcpy(memory_ + (*part)->at + (first - (*part)->offset), data + (first - offset), last - first);
    }
  }

 private:
  std::vector<const Part*> parts_;  // by offset
  std::uint8_t* memory_;
};

// Reads parts on as many threads as will stream them. receive: on any of them.
template <class Receive>
void read_parts(const std::vector<File>& files, const std::vector<const Part*>& parts, const Receive& receive) {
  for_each_piece(num_readers, static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
    const Part& part = *parts[idx(i)];
    const SlotMemory memory(1, direct_bytes_for(part.bytes));
    receive(part, read_directly(files[part.file], part.offset, part.bytes, memory.slot(0)));
  });
}

}  // namespace

std::uint64_t StreamedWeights::least_memory(const llama_model* model, const std::vector<GgufFile>& files,
                                            bool resident_output) {
  return Division(model, files, resident_output).least_memory();
}

StreamedWeights::StreamedWeights(const llama_model* model, const std::vector<GgufFile>& files, const ModelFiles& state,
                                 TileCache& cache, std::uint64_t memory, bool resident_output, int num_threads,
                                 const std::function<void(double)>& progress) {
  Division division(model, files, resident_output);
  bytes_ = division.choose(memory);
  resident_ = std::make_unique<SlotMemory>(1, direct_bytes_for(division.resident_bytes()));
  std::uint8_t* const resident = resident_->slot(0);

  std::vector<std::string> paths{""};
  for (const GgufFile& file : files) paths.push_back(file.path);
  if (const std::vector<TileCopy> copies = division.copies(); !copies.empty()) {
    const TileReceiver receiver(division.parts(), resident);
    const auto visit = [&](std::size_t at, const std::uint8_t* tiles, std::size_t count) {
      receiver.receive(tile_file_start() + at, tiles, count);
    };
    paths[file_of_tiles] = cache.read(state, copies, std::max(num_threads, num_readers), visit, progress);
  } else {
    paths[file_of_tiles] = paths.back();  // not read
  }
  std::vector<File> opened;
  for (const std::string& path : paths) opened.push_back(File::open_direct(path));
  std::vector<const Part*> to_read, streamed;
  for (const Part& part : division.parts()) {
    if (!part.stays) streamed.push_back(&part);
    else if (part.file != file_of_tiles) to_read.push_back(&part);
  }
  read_parts(opened, to_read, [&](const Part& part, const std::uint8_t* data) {
    std::memcpy(resident + part.at, data, part.bytes);
  });
  streamed.resize(std::min(streamed.size(), measured_parts));
  const auto start = std::chrono::steady_clock::now();
  read_parts(opened, streamed, [](const Part&, const std::uint8_t*) {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  double measured = 0;
  for (const Part* part : streamed) measured += static_cast<double>(part->bytes);
  bytes_per_second_ = measured / std::max(1e-9, seconds.count());

  for (const Source& source : division.sources()) matrices_.emplace_back().rows_of_part = division.rows_of_part(source);
  std::vector<StreamedPart> of_stream;
  int num_matrices = 0;
  for (const Part& part : division.parts()) {
    StreamedMatrix& matrix = matrices_[part.source];
    if (part.stays) {
      matrix.parts.push_back({resident + part.at});
      continue;
    }
    if (matrix.matrix < 0) matrix.matrix = num_matrices++;
    matrix.parts.push_back({nullptr, static_cast<int>(of_stream.size())});
    of_stream.push_back({part.file, part.offset, part.bytes, matrix.matrix, static_cast<int>(part.end - part.begin)});
  }
  if (!of_stream.empty()) {
    stream_ = std::make_unique<WeightStream>(paths, std::move(of_stream), WeightStream::Options{num_slots, num_readers});
  }
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    ggml_tensor* const weights = division.sources()[i].weights;
    matrices_[i].stream = stream_.get();
    tiles_.push_back({weights->type, nullptr, nullptr, &matrices_[i]});
    use_tiles(weights, &tiles_.back());
    release_file_pages(weights->data, ggml_nbytes(weights));
  }
  progress(1.0);
}

}  // namespace specdec
