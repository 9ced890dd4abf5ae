#include "quantize/gguf_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <regex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/parallel.h"
#include "base/weight_mixture.h"
#include "base/weight_types.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "gguf/gguf_writer.h"
#include "platform/file.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using std::to_string;

constexpr std::uint64_t columns_multiple = mxfp6::tile_columns;
constexpr std::uint64_t rows_multiple = mxfp6::tile_rows;
constexpr std::size_t longest_name = GGML_MAX_NAME - 1;  // llama.cpp rejects longer names

static_assert(mxfp6_rows_multiple == mxfp6::tile_rows && mxfp6_block == mxfp6::tile_columns &&
                  mxfp6_block_bytes * mxfp6::tile_rows == mxfp6::tile_bytes,
              "files are checked for the kernels' tiles");

// Size of a piece of work: large enough for little synchronisation, small enough for L2 and a quick response to Ctrl-C.
constexpr std::uint64_t piece_weights = 1 << 18;
constexpr std::uint64_t piece_bytes = 1 << 20;

// ---- Tensors that keep their type

// After llama.cpp's tensor_allows_quantization (src/llama-quant.cpp of the pinned version).
struct KeptName {
  const char* part;  // substring of the name
  const char* reason;
};
constexpr KeptName kept_names[] = {
    {"_norm.weight", "norm"},
    {"ffn_gate_inp.weight", "router"},
    {"ffn_gate_tid2eid.weight", "router"},
    {"altup", "small"},
    {"laurel", "small"},
    {"per_layer_model_proj", "small"},
    {"ssm_conv1d", "small"},
    {"shortconv.conv.weight", "small"},
    {"indexer.k_proj.weight", "small"},
    {"indexer.q_proj.weight", "small"},
    {"time_mix_first.weight", "small"},
    {"time_mix_w0.weight", "small"},
    {"time_mix_w1.weight", "small"},
    {"time_mix_w2.weight", "small"},
    {"time_mix_v0.weight", "small"},
    {"time_mix_v1.weight", "small"},
    {"time_mix_v2.weight", "small"},
    {"time_mix_a0.weight", "small"},
    {"time_mix_a1.weight", "small"},
    {"time_mix_a2.weight", "small"},
    {"time_mix_g1.weight", "small"},
    {"time_mix_g2.weight", "small"},
    {"time_mix_decay_w1.weight", "small"},
    {"time_mix_decay_w2.weight", "small"},
    {"time_mix_lerp_fused.weight", "small"},
    {"attn_rel_b.weight", "positions"},
    {".position_embd", "positions"},
    {"sam.pos_embd", "positions"},
    {".rel_pos", "positions"},
    {"sam.neck.", "image input"},
    {"sam.net_", "image input"},
    {".patch_embd", "image input"},
    {".patch_merger", "image input"},
    {"a.rvq.codebook", "audio input"},
    {"mm.a.code_embd", "audio input"},
};
constexpr const char* kept_in_glm5_next[] = {
    "hc_",
    "indexer.attn_q_b",
    "indexer.attn_k",
    "indexer.proj",
    "indexer_compressor_gate",
    "indexer_compressor_ape",
    "ssm_f_a.weight",
    "ssm_f_b.weight",
    "ssm_g_a.weight",
    "ssm_g_b.weight",
    "ssm_beta.weight",
    "attn_kv_a_mqa.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Without trailing dimensions of size 1, as in ggml.
std::size_t num_dimensions(const GgufTensor& tensor) {
  std::size_t count = tensor.shape.size();
  while (count > 1 && tensor.shape[count - 1] == 1) --count;
  return count;
}

bool is_integer(int type) {
  return type == GGML_TYPE_I8 || type == GGML_TYPE_I16 || type == GGML_TYPE_I32 || type == GGML_TYPE_I64;
}

std::uint64_t bytes_in(int type, std::uint64_t elements) {
  if (is_mxfp6(type)) return elements / (mxfp6::tile_rows * mxfp6::tile_columns) * mxfp6::tile_bytes;
  return elements / static_cast<std::uint64_t>(find_weight_type(type)->columns) *
         static_cast<std::uint64_t>(find_weight_type(type)->bytes);
}
std::uint64_t mxfp6_bytes(const GgufTensor& tensor) { return bytes_in(type_id::mxfp6_e2m3, tensor.elements()); }

// What a tensor becomes if it is quantized. Rows that are not whole blocks of 256 columns get one of 32.
int written_type(const GgufTensor& tensor, WrittenTypes types) {
  if (types == WrittenTypes::mxfp6) return type_id::mxfp6_e2m3;
  const bool is_output = tensor.name == "output.weight" || tensor.name == "token_embd.weight";
  const WeightMixture mixture = types == WrittenTypes::q3 ? mixture_of_3_bits : mixture_of_2_bits;
  const BlockType type = is_output ? BlockType::q6_k : mixture.of(tensor.name);
  const bool is_whole = tensor.shape[0] % static_cast<std::uint64_t>(find_weight_type(id(type))->columns) == 0;
  return id(is_whole ? type : is_output ? BlockType::q8_0 : BlockType::q4_0);
}

// ---- The plan for every tensor

struct Task {
  const GgufFile* part;
  const GgufTensor* source;
  std::string kept_because;  // empty: quantize
  int type = 0;              // to which
};

[[noreturn]] void fail(const Task& task, const std::string& problem) {
  throw ModelError(task.part->path + ": tensor \"" + task.source->name + "\" " + problem);
}

bool is_readable(int type) {
  return type == GGML_TYPE_F32 || ggml_get_type_traits(static_cast<ggml_type>(type))->to_float != nullptr;
}

// Throws for tensors that cannot be written at all, not even unchanged.
void check_input(const Task& task) {
  const GgufTensor& tensor = *task.source;
  if (tensor.name.size() > longest_name)
    fail(task, "has a name of more than " + to_string(longest_name) + " bytes, which llama.cpp rejects");
  if (!is_mxfp6(tensor.type)) return;
  fail(task, "is already MXFP6; quantize the original model instead");
}

void check_quantizable(const Task& task, bool allow_requantize) {
  const WeightType& type = *find_weight_type(task.source->type);
  if (!is_readable(type.id))
    fail(task, std::string("has type ") + type.name + ", which cannot be read; convert the model to F16");
  if (type.bytes >= type.columns || allow_requantize) return;
  fail(task, std::string("is already quantized to ") + type.name +
                 ": quantizing it again loses accuracy twice; use the original model, or --allow-requantize");
}

std::optional<std::regex> compile(const std::string& pattern) {
  if (pattern.empty()) return std::nullopt;
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw std::invalid_argument("--keep: \"" + pattern + "\" is not a regular expression: " + error.what());
  }
}

std::vector<Task> plan(const std::vector<GgufFile>& parts, const QuantizeOptions& options) {
  const std::optional<std::regex> keep = compile(options.keep);
  std::vector<Task> tasks;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      Task task{&part, &tensor, reason_to_keep(tensor, parts)};
      check_input(task);  // before the expression sees the name: std::regex recurses once per character
      if (task.kept_because.empty() && keep && std::regex_search(tensor.name, *keep)) task.kept_because = "--keep";
      if (task.kept_because.empty()) task.type = written_type(tensor, options.types);
      const bool is_mixture = options.types != WrittenTypes::mxfp6 && task.kept_because.empty();
      if (is_mixture && tensor.bytes <= bytes_in(task.type, tensor.elements())) task.kept_because = "has as few bits";
      if (task.kept_because.empty()) check_quantizable(task, options.allow_requantize);
      tasks.push_back(std::move(task));
    }
  }
  const bool any = std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.kept_because.empty(); });
  if (!any) throw ModelError(parts.front().path + ": no tensor can be quantized");
  return tasks;
}

std::vector<GgufTensor> output_tensors(const std::vector<Task>& tasks) {
  std::vector<GgufTensor> tensors;
  for (const Task& task : tasks) {
    GgufTensor tensor = *task.source;
    if (task.kept_because.empty()) {
      tensor.type = task.type;
      tensor.bytes = bytes_in(task.type, tensor.elements());
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Replaces the value of an existing key in place, or appends the key.
void set(std::vector<GgufEntry>& metadata, GgufEntry entry) {
  for (GgufEntry& present : metadata) {
    if (present.key != entry.key) continue;
    present = std::move(entry);
    return;
  }
  metadata.push_back(std::move(entry));
}

// general.file_type is the id of the type that most weights have, for mixtures llama.cpp's number of them; its numbers
// are far below ours.
std::vector<GgufEntry> output_metadata(const GgufFile& first, WrittenTypes types, const std::string& description) {
  std::vector<GgufEntry> metadata;
  for (const GgufEntry& entry : first.metadata) {
    if (entry.key.compare(0, 6, "split.") != 0) metadata.push_back(entry);
  }
  constexpr std::uint64_t mostly_q2_k = 10, mostly_q3_k_m = 12;
  if (types != WrittenTypes::mxfp6) {
    set(metadata, {"general.file_type", GgufType::u32, types == WrittenTypes::q3 ? mostly_q3_k_m : mostly_q2_k});
    return metadata;
  }
  constexpr int type = type_id::mxfp6_e2m3;
  set(metadata, {"general.file_type", GgufType::u32, static_cast<std::uint64_t>(type)});
  set(metadata, {mxfp6_layout_key, GgufType::u32, mxfp6_layout});
  set(metadata,
      {"mxfp6.quantization", GgufType::string, std::string(find_weight_type(type)->name) + ", " + description});
  return metadata;
}

void check_different(const std::vector<GgufFile>& parts, const std::string& out) {
  std::error_code error;
  for (const GgufFile& part : parts) {
    if (fs::equivalent(part.path, out, error))
      throw std::invalid_argument(out + " is the input; name another file for the result");
  }
}

// ---- Reading

// n values of any type that is_readable, n a multiple of its block.
void convert(int type, const void* from, float* to, std::int64_t n) {
  if (type == GGML_TYPE_F32) {
    std::memcpy(to, from, idx(n) * sizeof(float));
  } else if (type == GGML_TYPE_F16) {
    ggml_cpu_fp16_to_fp32(static_cast<const ggml_fp16_t*>(from), to,
                          n);  // the function in the traits is not vectorised
  } else {
    ggml_get_type_traits(static_cast<ggml_type>(type))->to_float(from, to, n);
  }
}

// ---- Threads

int thread_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// ---- One tensor

class NearestQuantizer : public MatrixQuantizer {
 public:
  explicit NearestQuantizer(mxfp6::ScaleRule rule) : rule_(rule) {}

  std::string description() const override { return rule_ == mxfp6::ScaleRule::mse ? "scale mse" : "scale ocp"; }

  std::int64_t quantize(const float* x, std::int64_t /*first_row*/, std::int64_t rows, std::int64_t cols,
                        std::uint8_t* codes, std::uint8_t* scales) const override {
    return mxfp6::quantize(rule_, x, rows, cols, codes, scales);
  }

 private:
  mxfp6::ScaleRule rule_;
};

struct SquareSums {
  double errors = 0.0, weights = 0.0;

  void add(const SquareSums& other) { errors += other.errors, weights += other.weights; }
  double relative_error() const { return weights > 0.0 ? std::sqrt(errors / weights) : 0.0; }
};

SquareSums square_sums(const float* x, const float* decoded, std::size_t n) {
  SquareSums even, odd;  // n is even; two dependency chains instead of one
  const auto take = [](SquareSums& sums, float weight, float value) {
    const double w = static_cast<double>(weight), e = w - static_cast<double>(value);
    sums.weights += w * w;
    sums.errors += e * e;
  };
  for (std::size_t i = 0; i < n; i += 2) {
    take(even, x[i], decoded[i]);
    take(odd, x[i + 1], decoded[i + 1]);
  }
  even.add(odd);
  return even;
}

// Per-thread memory, reused for every piece.
struct Scratch {
  std::vector<char> source;
  std::vector<float> weights, decoded;
  std::vector<std::uint8_t> codes, scales, tiles;

  void resize(std::size_t source_bytes, std::size_t num_weights) {
    source.resize(source_bytes);
    weights.resize(num_weights);
    decoded.resize(num_weights);
    codes.resize(num_weights);
    scales.resize(num_weights / mxfp6::block_size);
    tiles.resize(num_weights / (mxfp6::tile_rows * mxfp6::tile_columns) * mxfp6::tile_bytes);
  }
};

class Job {
 public:
  Job(const std::vector<GgufFile>& parts, std::vector<Task> tasks, const QuantizeOptions& options,
      MatrixQuantizer& quantizer, GgufWriter& writer)
      : tasks_(std::move(tasks)),
        options_(options),
        quantizer_(quantizer),
        writer_(writer),
        parts_(parts.data()),
        num_threads_(thread_count(options.num_threads)),
        scratch_(idx(num_threads_)) {
    for (const GgufFile& part : parts) files_.push_back(File::open(part.path));
    for (const Task& task : tasks_) work_.all += task.kept_because.empty() ? work_of(task) : copying(task);
  }

  QuantizeReport run() {
    QuantizeReport report;
    SquareSums all;
    for (current_ = 0; current_ < tasks_.size(); ++current_) {
      const Task& task = tasks_[current_];
      const SquareSums sums = task.kept_because.empty() ? quantize(task) : copy(task);
      all.add(sums);
      report.tensors.push_back({task.source->name, task.source->type, target().type, task.source->shape,
                                task.source->elements(), task.source->bytes, target().bytes, task.kept_because,
                                sums.relative_error(),
                                task.kept_because.empty() ? quantizer_.output_error(task.source->name) : -1.0});
    }
    current_ = tasks_.size() - 1;
    report.relative_error = all.relative_error();
    report.output_bytes = writer_.file_size();
    return report;
  }

  // Throws Cancelled when the caller wants to stop.
  void tick() const {
    if (!options_.progress) return;
    const QuantizeProgress progress{tasks_[current_].source->name, current_, tasks_.size(), work_.share()};
    if (!options_.progress(progress)) throw Cancelled("interrupted");
  }

 private:
  struct Piece {
    std::int64_t first_row, rows;  // of the matrix
  };

  // Progress of the job, in units of MatrixQuantizer::work. A part is a matrix, or a tensor that is copied.
  struct Work {
    double all = 0.0, before = 0.0;  // of everything; of the finished parts
    double part = 0.0;               // of the running part
    std::uint64_t part_size = 1;     // weights or bytes
    std::atomic<std::uint64_t> part_done{0};

    void begin(double expected, double known, std::uint64_t size) {
      all += known - expected;
      before += part;
      part = known;
      part_size = size;
      part_done = 0;
    }
    double share() const {
      return std::min(1.0, (before + part * static_cast<double>(part_done) / static_cast<double>(part_size)) / all);
    }
  };
  static double copying(const Task& task) { return 0.05 * static_cast<double>(task.source->bytes); }
  static MatrixQuantizer::Matrix matrix_of(const Task& task, std::uint64_t index) {
    const std::vector<std::uint64_t>& shape = task.source->shape;
    return {task.source->name, index, static_cast<std::int64_t>(shape[1]), static_cast<std::int64_t>(shape[0])};
  }
  static std::uint64_t num_matrices(const Task& task) {
    return task.source->shape.size() > 2 ? task.source->shape[2] : 1;
  }
  double work_of(const Task& task) const {
    double work = 0.0;
    for (std::uint64_t index = 0; index < num_matrices(task); ++index) work += quantizer_.work(matrix_of(task, index));
    return work;
  }

  const GgufTensor& target() const { return writer_.tensors()[current_]; }
  const File& file_of(const Task& task) const { return files_[idx(task.part - parts_)]; }

  SquareSums copy(const Task& task) {
    const GgufTensor& source = *task.source;
    work_.begin(copying(task), copying(task), source.bytes);
    const auto work = [&](std::int64_t piece, int thread) {
      const std::uint64_t begin = static_cast<std::uint64_t>(piece) * piece_bytes,
                          bytes = std::min(piece_bytes, source.bytes - begin);
      std::vector<char>& buffer = scratch_[idx(thread)].source;
      buffer.resize(bytes);
      file_of(task).read(source.offset + begin, buffer.data(), bytes);
      writer_.write(target().offset + begin, buffer.data(), bytes);
      work_.part_done += bytes;
    };
    for_each_piece(num_threads_, static_cast<std::int64_t>((source.bytes + piece_bytes - 1) / piece_bytes), work,
                   [this] { tick(); });
    return {};
  }

  SquareSums quantize(const Task& task) {
    SquareSums sums;
    for (std::uint64_t index = 0; index < num_matrices(task); ++index)
      sums.add(quantize_matrix(task, matrix_of(task, index)));
    return sums;
  }

  SquareSums quantize_matrix(const Task& task, const MatrixQuantizer::Matrix& matrix) {
    const double expected = quantizer_.work(matrix);
    quantizer_.begin(matrix);
    work_.begin(expected, quantizer_.work(matrix), static_cast<std::uint64_t>(matrix.rows * matrix.cols));
    const std::int64_t bands = matrix.rows / mxfp6::tile_rows;
    const std::int64_t piece_bands =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(piece_weights) / (matrix.cols * mxfp6::tile_rows), 1, bands);
    std::vector<SquareSums> sums(idx((bands + piece_bands - 1) / piece_bands));
    const auto work = [&](std::int64_t number, int thread) {
      const std::int64_t first_band = number * piece_bands;
      const Piece piece{first_band * mxfp6::tile_rows, std::min(piece_bands, bands - first_band) * mxfp6::tile_rows};
      sums[idx(number)] = quantize_piece(task, matrix, piece, scratch_[idx(thread)]);
    };
    for_each_piece(num_threads_, static_cast<std::int64_t>(sums.size()), work, [this] { tick(); });
    SquareSums all;
    for (const SquareSums& one : sums)
      all.add(one);  // in order, so that the sum does not depend on the number of threads
    return all;
  }

  SquareSums quantize_piece(const Task& task, const MatrixQuantizer::Matrix& matrix, const Piece& piece,
                            Scratch& scratch) {
    const WeightType& type = *find_weight_type(task.source->type);
    const auto cols = static_cast<std::uint64_t>(matrix.cols), rows = static_cast<std::uint64_t>(piece.rows);
    const std::uint64_t row_bytes = cols / type.columns * type.bytes;
    const std::uint64_t first_row =
        matrix.index * static_cast<std::uint64_t>(matrix.rows) + static_cast<std::uint64_t>(piece.first_row);
    scratch.resize(rows * row_bytes, rows * cols);
    file_of(task).read(task.source->offset + first_row * row_bytes, scratch.source.data(), rows * row_bytes);
    convert(task.source->type, scratch.source.data(), scratch.weights.data(), piece.rows * matrix.cols);

    if (!is_mxfp6(task.type)) return quantize_stock(task, matrix, piece, scratch);
    const std::int64_t bad = quantizer_.quantize(scratch.weights.data(), piece.first_row, piece.rows, matrix.cols,
                                                 scratch.codes.data(), scratch.scales.data());
    if (bad >= 0) fail_not_finite(task, matrix, piece, bad, scratch.weights[idx(bad)]);
    mxfp6::pack(scratch.codes.data(), scratch.scales.data(), piece.rows, matrix.cols, scratch.tiles.data());
    writer_.write(target().offset + first_row / rows_multiple * (cols / columns_multiple) * mxfp6::tile_bytes,
                  scratch.tiles.data(), scratch.tiles.size());
    work_.part_done += rows * cols;
    mxfp6::dequantize(scratch.codes.data(), scratch.scales.data(), piece.rows, matrix.cols, scratch.decoded.data());
    return square_sums(scratch.weights.data(), scratch.decoded.data(), scratch.weights.size());
  }

  // By llama.cpp's own quantizer, without importances.
  SquareSums quantize_stock(const Task& task, const MatrixQuantizer::Matrix& matrix, const Piece& piece,
                            Scratch& scratch) {
    const std::vector<float>& weights = scratch.weights;
    const auto bad = std::find_if(weights.begin(), weights.end(), [](float x) { return !std::isfinite(x); });
    if (bad != weights.end()) fail_not_finite(task, matrix, piece, bad - weights.begin(), *bad);
    const auto type = static_cast<ggml_type>(task.type);
    const std::uint64_t row_bytes = bytes_in(task.type, static_cast<std::uint64_t>(matrix.cols));
    scratch.tiles.resize(static_cast<std::uint64_t>(piece.rows) * row_bytes);
    ggml_quantize_chunk(type, weights.data(), scratch.tiles.data(), 0, piece.rows, matrix.cols, nullptr);
    const std::uint64_t first_row =
        matrix.index * static_cast<std::uint64_t>(matrix.rows) + static_cast<std::uint64_t>(piece.first_row);
    writer_.write(target().offset + first_row * row_bytes, scratch.tiles.data(), scratch.tiles.size());
    work_.part_done += weights.size();
    convert(task.type, scratch.tiles.data(), scratch.decoded.data(), piece.rows * matrix.cols);
    return square_sums(weights.data(), scratch.decoded.data(), weights.size());
  }

  [[noreturn]] static void fail_not_finite(const Task& task, const MatrixQuantizer::Matrix& matrix, const Piece& piece,
                                           std::int64_t at, float value) {
    std::string place =
        "row " + to_string(piece.first_row + at / matrix.cols) + ", column " + to_string(at % matrix.cols);
    if (task.source->shape.size() > 2) place += " of matrix " + to_string(matrix.index);
    fail(task, std::string("has ") + (std::isnan(value) ? "NaN" : "an infinite weight") + " at " + place +
                   "; the model is damaged or needs a type of larger range");
  }

  std::vector<Task> tasks_;
  const QuantizeOptions& options_;
  MatrixQuantizer& quantizer_;
  GgufWriter& writer_;
  const GgufFile* parts_;
  int num_threads_;
  std::vector<Scratch> scratch_;  // one per thread
  std::vector<File> files_;       // one per part
  std::size_t current_ = 0;
  Work work_;
};

}  // namespace

std::string reason_to_keep(const GgufTensor& tensor, const std::vector<GgufFile>& parts) {
  const std::string& name = tensor.name;
  const std::string architecture = parts.front().string("general.architecture").value_or("");
  if (num_dimensions(tensor) < 2) return "1 dimension";
  if (!ends_with(name, "weight")) return "not a weight";
  if (is_integer(tensor.type)) return "integers";
  if (name == "position_embd.weight" || name == "token_types.weight") return "positions";
  for (const KeptName& kept : kept_names) {
    if (contains(name, kept.part)) return kept.reason;
  }
  for (const char* part : kept_in_glm5_next) {
    if (architecture == "glm5-next" && contains(name, part)) return "small";
  }
  if (num_dimensions(tensor) > 3) return "4 dimensions";
  if (tensor.shape[0] % columns_multiple != 0) return "columns % 32 != 0";
  if (tensor.shape[1] % rows_multiple != 0) return "rows % 16 != 0";
  if (name == "token_embd.weight" && tensor.bytes < mxfp6_bytes(tensor) &&
      find_tensor(parts, "output.weight") != nullptr)
    return "looked up";
  return "";
}

QuantizeReport quantize_gguf(const std::string& in, const std::string& out, const QuantizeOptions& options) {
  if (out.empty()) throw std::invalid_argument("the file to write has no name");
  ggml_cpu_init();  // initialises ggml's F16 table, for CPUs without F16C
  const std::vector<GgufFile> parts = GgufFile::read_parts(in);
  check_different(parts, out);
  std::vector<Task> tasks = plan(parts, options);
  NearestQuantizer nearest(options.scale);
  MatrixQuantizer& quantizer = options.quantizer == nullptr ? nearest : *options.quantizer;

  GgufWriter writer(out, options.overwrite, output_metadata(parts.front(), options.types, quantizer.description()),
                    output_tensors(tasks), parts.front().alignment);
  Job job(parts, std::move(tasks), options, quantizer, writer);
  QuantizeReport report = job.run();
  report.input_bytes = total_file_size(parts);
  writer.sync();
  job.tick();
  writer.publish();
  return report;
}

}  // namespace specdec
