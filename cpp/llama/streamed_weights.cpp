#include "llama/streamed_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/index.h"
#include "base/parallel.h"
#include "ggml.h"
#include "llama-model.h"
#include "llama/expert_pieces.h"
#include "llama/rounded_weights.h"
#include "llama/tile_file.h"
#include "llama/weight_parts.h"
#include "platform/memory.h"
#include "streaming/direct_reads.h"
#include "streaming/disk_speed.h"

namespace specdec {
namespace {

// Bytes that stay in memory.
struct Destination : FileRange {
  std::uint8_t* to;
};

// Copies bytes out of the file of tiles, which is read whole, since its hashes are of pieces of it.
class TileReceiver {
 public:
  explicit TileReceiver(const std::vector<Destination>& destinations) {
    for (const Destination& destination : destinations) {
      if (destination.file == file_of_tiles) destinations_.push_back(destination);
    }
    std::sort(destinations_.begin(), destinations_.end(),
              [](const Destination& a, const Destination& b) { return a.offset < b.offset; });
  }

  // For any thread.
  void receive(std::uint64_t offset, const std::uint8_t* data, std::size_t count) const {
    const std::uint64_t end = offset + count;
    auto at = std::upper_bound(destinations_.begin(), destinations_.end(), offset,
                               [](std::uint64_t place, const Destination& other) { return place < other.offset; });
    if (at != destinations_.begin()) --at;
    for (; at != destinations_.end() && at->offset < end; ++at) {
      const std::uint64_t first = std::max(offset, at->offset), last = std::min(end, at->offset + at->bytes);
      if (first < last) std::memcpy(at->to + (first - at->offset), data + (first - offset), last - first);
    }
  }

 private:
  std::vector<Destination> destinations_;  // by offset
};

// Reads them on as many threads as will stream.
void read_all(const std::vector<std::string>& paths, const std::vector<Destination>& destinations) {
  const DirectFiles files(paths);
  for_each_piece(num_readers, static_cast<std::int64_t>(destinations.size()), [&](std::int64_t i) {
    const Destination& wanted = destinations[idx(i)];
    const SlotMemory memory(1, direct_bytes_for(wanted.bytes));
    std::memcpy(wanted.to, files.read(wanted, memory.slot(0)), wanted.bytes);
  });
}

const ggml_tensor* tensor_of(const llama_model* model, const std::string& name) {
  for (const auto& [known, tensor] : llama_internal_get_tensor_map(model)) {
    if (known == name) return tensor;
  }
  return nullptr;
}

// Bytes of rounded copies.
struct CopyBytes {
  WeightParts::Copies of_matrices;  // by source; empty: there are none
  std::uint64_t others = 0;         // of experts, and of the output, which stays
};

CopyBytes copy_bytes(const llama_model* model, const WeightSources& sources, TileWeights copies) {
  CopyBytes bytes;
  if (copies == TileWeights::exact) return bytes;
  const auto of = [&](const std::vector<WeightSource>& some) {
    std::vector<const ggml_tensor*> matrices;
    for (const WeightSource& source : some) matrices.push_back(source.weights);
    return bytes_of_copies(model, copies, matrices);
  };
  const std::vector<WeightSource> single = sources.of_experts(false);
  bytes.of_matrices = of(single);
  for (std::size_t i = 0; i < single.size(); ++i) bytes.others += single[i].is_output ? bytes.of_matrices[i] : 0;
  for (const std::uint64_t count : of(sources.of_experts(true))) bytes.others += count;
  return bytes;
}

}  // namespace

std::uint64_t StreamedWeights::least_memory(const llama_model* model, const std::vector<GgufFile>& files,
                                            const Options& options) {
  const WeightSources sources(model, files);
  const CopyBytes copies = copy_bytes(model, sources, options.copies);
  return WeightParts(sources.of_experts(false), options.with_head).least_memory(copies.of_matrices) +
         ExpertPieces(sources.of_experts(true), options.num_threads).least_memory() + copies.others;
}

StreamedWeights::StreamedWeights(const llama_model* model, const StreamedFiles& from, const Options& options,
                                 const std::function<void(double)>& progress) {
  const WeightSources sources(model, from.files);
  WeightParts parts(sources.of_experts(false), options.with_head);
  ExpertPieces pieces(sources.of_experts(true), options.num_threads);
  const CopyBytes copies = copy_bytes(model, sources, options.copies);
  // Every pass uses all single matrices, and few of the experts.
  const std::uint64_t reserved = pieces.least_memory() + copies.others;
  const std::uint64_t for_parts = options.memory > reserved ? options.memory - reserved : 0;
  parts.choose(for_parts, copies.of_matrices);
  bytes_.copies = parts.copies_bytes() + copies.others;
  const std::uint64_t taken = std::min(parts.all_memory(), for_parts) + copies.others;
  pieces.choose(options.memory - std::min(options.memory, taken));

  std::vector<std::string> paths{""};
  for (const GgufFile& file : from.files) paths.push_back(file.path);
  paths[file_of_tiles] = paths.back();
  resident_ = std::make_unique<SlotMemory>(1, direct_bytes_for(parts.resident_bytes()));
  std::vector<Destination> stay;
  for (const WeightPart& part : parts.all()) {
    if (part.stays) stay.push_back({part.file, part.offset, part.bytes, resident_->slot(0) + part.at});
  }
  if (!pieces.all().empty()) experts_ = std::make_unique<PieceCache>(pieces.all(), pieces.pools());
  for (const int index : pieces.first_pieces()) {
    const FileRange& piece = pieces.all()[idx(index)];
    stay.push_back({piece.file, piece.offset, piece.bytes, experts_->fill(index)});
  }
  const TileReceiver receiver(stay);
  if (!sources.copies().empty()) {
    const auto visit = [&](std::size_t at, const std::uint8_t* tiles, std::size_t count) {
      receiver.receive(tile_file_start() + at, tiles, count);
    };
    paths[file_of_tiles] =
        from.cache.read(from.state, sources.copies(), std::max(options.num_threads, num_readers), visit, progress);
  }
  stay.erase(std::remove_if(stay.begin(), stay.end(),
                            [](const Destination& destination) { return destination.file == file_of_tiles; }),
             stay.end());
  read_all(paths, stay);
  use_single(parts, paths);
  if (experts_) {
    experts_->start(paths, num_readers);
    use_experts(pieces, model);
  }
  bytes_per_second_ = disk_speed(paths[file_of_tiles]);
  progress(1.0);
}

void StreamedWeights::use(const WeightSource& source, const BlockTiles& tiles) {
  tiles_.push_back(tiles);
  use_tiles(source.weights, &tiles_.back());
  release_file_pages(source.weights->data, ggml_nbytes(source.weights));
}

void StreamedWeights::use_single(const WeightParts& parts, const std::vector<std::string>& paths) {
  for (const WeightSource& source : parts.sources()) matrices_.emplace_back().rows_of_part = parts.rows_of_part(source);
  std::vector<StreamedPart> streamed;
  int num_matrices = 0;
  for (const WeightPart& part : parts.all()) {
    bytes_.total += part.bytes;
    (part.stays ? bytes_.stay : bytes_.streamed) += part.bytes;
    StreamedMatrix& matrix = matrices_[part.source];
    if (part.stays) {
      matrix.parts.push_back({resident_->slot(0) + part.at});
      continue;
    }
    if (matrix.matrix < 0) matrix.matrix = num_matrices++;
    matrix.parts.push_back({nullptr, static_cast<int>(streamed.size())});
    streamed.push_back({part.file, part.offset, part.bytes, matrix.matrix, static_cast<int>(part.end - part.begin)});
  }
  if (!streamed.empty()) {
    stream_ = std::make_unique<WeightStream>(paths, std::move(streamed),
                                             WeightStream::Options{WeightParts::num_slots, num_readers});
  }
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const WeightSource& source = parts.sources()[i];
    StreamedMatrix& matrix = matrices_[i];
    matrix.stream = stream_.get();
    if (source.is_tiled && matrix.matrix < 0) use(source, {source.weights->type, matrix.parts.front().data});
    else use(source, {source.weights->type, nullptr, nullptr, &matrix, nullptr});
  }
}

void StreamedWeights::use_experts(const ExpertPieces& pieces, const llama_model* model) {
  bytes_.total += bytes_.experts = bytes_of(pieces.sources());
  bytes_.slots = pieces.slots_bytes();
  make_layers(pieces, model);
  int at = 0;
  for (const WeightSource& source : pieces.sources()) {
    cached_.emplace_back(*experts_, at, source.num_matrices(), layers_.at(source.layer));
    use(source, {source.weights->type, nullptr, nullptr, nullptr, &cached_.back()});
    at += static_cast<int>(source.num_matrices());
  }
}

// Which matrices of experts follow each other, and the routers that choose them.
void StreamedWeights::make_layers(const ExpertPieces& pieces, const llama_model* model) {
  int at = 0;
  for (const WeightSource& source : pieces.sources()) {
    layers_[source.layer].first_pieces.push_back(at);
    at += static_cast<int>(source.num_matrices());
  }
  const auto num_chosen = static_cast<int>(model->hparams.n_expert_used_max());
  for (auto& [number, layer] : layers_) {
    const auto following = layers_.find(number + 1);
    const ggml_tensor* const router = tensor_of(model, "blk." + std::to_string(number + 1) + ".ffn_gate_inp.weight");
    const bool is_known = following != layers_.end() && router != nullptr && router->type == GGML_TYPE_F32 &&
                          ggml_is_contiguous(router) && num_chosen > 0;
    if (!is_known) continue;
    routers_.push_back({static_cast<const float*>(router->data), router->ne[0], router->ne[1], num_chosen,
                        following->second.first_pieces});
    layer.next = &routers_.back();
  }
}

std::string StreamedWeights::take_problem() const {
  if (stream_ != nullptr && stream_->has_failed()) return stream_->take_problem();
  if (experts_ != nullptr && experts_->has_failed()) return experts_->take_problem();
  return "";
}

}  // namespace specdec
