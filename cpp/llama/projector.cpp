#include "llama/projector.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "base/sha256.h"
#include "gguf/fingerprint.h"
#include "gguf/gguf_file.h"
#include "gguf/problem.h"
#include "gguf/projector_checks.h"
#include "graph/op_failure.h"
#include "llama.h"
#include "llama/backend.h"
#include "mtmd.h"

namespace specdec {
namespace {

struct FreeBitmap {
  void operator()(mtmd_bitmap* bitmap) const { mtmd_bitmap_free(bitmap); }
};
struct FreeChunks {
  void operator()(mtmd_input_chunks* chunks) const { mtmd_input_chunks_free(chunks); }
};
struct FreeChunk {
  void operator()(mtmd_input_chunk* chunk) const { mtmd_input_chunk_free(chunk); }
};
using Chunk = std::unique_ptr<mtmd_input_chunk, FreeChunk>;

// Cryptographic: nobody can make a picture that is taken for another's.
std::string key_of(const std::string& projector, const Pixels& pixels) {
  Sha256 hash;
  hash.add(projector.data(), projector.size());
  hash.add(&pixels.width, sizeof pixels.width);
  hash.add(&pixels.height, sizeof pixels.height);
  hash.add(pixels.rgb.data(), pixels.rgb.size());
  return hash.finish();
}

void check_file(const GgufFile& file) {
  const std::string type = file.string("general.architecture").value_or("");
  const auto reads_pictures = file.boolean("clip.has_vision_encoder").value_or(true);
  if (type != "clip")
    fail_file(file.path, "is not a projector (its architecture is " + type + ")", "give the file named mmproj-...");
  if (!reads_pictures)
    fail_file(file.path, "has no encoder of pictures; sound is not read", "give a projector for pictures");
  check_projector(file);
}

std::string fingerprint_of(const GgufFile& file) {
  check_file(file);
  return model_fingerprint({file});
}

}  // namespace

class Projector::Rows final : public PictureRows {
 public:
  Rows(std::shared_ptr<const Projector> projector, Chunk chunk, bool is_causal)
      : projector_(std::move(projector)), chunk_(std::move(chunk)), is_causal_(is_causal) {}

  const float* rows() const override {
    if (rows_.empty()) rows_ = projector_->encode(chunk_.get());
    return rows_.data();
  }
  std::array<int, 4> position(int row, int begin) const override {
    const mtmd_image_tokens* const tokens = mtmd_input_chunk_get_tokens_image(chunk_.get());
    const mtmd_decoder_pos at = mtmd_image_tokens_get_decoder_pos(tokens, begin, idx(row));
    return {static_cast<int>(at.t), static_cast<int>(at.y), static_cast<int>(at.x), static_cast<int>(at.z)};
  }
  bool is_causal() const override { return is_causal_; }

 private:
  const std::shared_ptr<const Projector> projector_;
  const Chunk chunk_;
  const bool is_causal_;
  mutable std::vector<float> rows_;
};

void Projector::Free::operator()(mtmd_context* context) const { mtmd_free(context); }

std::shared_ptr<Projector> Projector::load(const std::string& path, const std::shared_ptr<const Model>& target,
                                           int num_threads, int batch_size) {
  return std::shared_ptr<Projector>(new Projector(path, target, num_threads, batch_size));
}

Projector::Projector(std::string path, std::shared_ptr<const Model> target, int num_threads, int batch_size)
    : path_(std::move(path)),
      fingerprint_(fingerprint_of(GgufFile::read(path_))),
      target_(std::move(target)),
      batch_size_(batch_size) {
  start_backend();
  mtmd_log_set([](ggml_log_level level, const char* text, void*) { log_of_llama(level, text); }, nullptr);
  mtmd_context_params params = mtmd_context_params_default();
  params.use_gpu = false;
  params.n_threads = num_threads;
  params.print_timings = false;
  params.warmup = false;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  take_backend_errors();
  try {
    const AbortsAsErrors guard;
    context_.reset(mtmd_init_from_file(path_.c_str(), target_->get(), params));
  } catch (const std::exception& failure) {  // a failed assertion
    throw ModelError(path_ + ": llama.cpp cannot read this projector: " + failure.what());
  }
  if (!context_) fail(take_backend_errors());
  if (!mtmd_support_vision(context_.get()))
    fail_file(path_, "has no encoder of pictures; sound is not read", "give a projector for pictures");
}

// llama.cpp says "mismatch between text model (n_embd = 96) and mmproj (n_embd = 64)".
void Projector::fail(const std::string& error) const {
  const std::string name = "and mmproj (n_embd = ";
  const std::size_t at = error.find(name);
  if (at == std::string::npos) throw ModelError(path_ + ": llama.cpp cannot read this projector: " + error);
  fail_file(path_,
            "is for another model: its rows are " + std::to_string(std::atoi(error.c_str() + at + name.size())) +
                " wide, and " + target_->path() + " reads rows of " + std::to_string(row_size()),
            "give the projector that belongs to that model");
}

Projector::~Projector() = default;

int Projector::row_size() const { return llama_model_n_embd_inp(target_->get()); }

Text Projector::read(const Pixels& pixels) const {
  const std::unique_ptr<mtmd_bitmap, FreeBitmap> bitmap(mtmd_bitmap_init(
      static_cast<std::uint32_t>(pixels.width), static_cast<std::uint32_t>(pixels.height), pixels.rgb.data()));
  const std::unique_ptr<mtmd_input_chunks, FreeChunks> chunks(mtmd_input_chunks_init());
  const mtmd_input_part part{nullptr, bitmap.get()};
  const mtmd_input_part* const parts[] = {&part};
  take_backend_errors();
  int status = 0;
  try {
    const AbortsAsErrors guard;
    status = mtmd_tokenize_from_parts(context_.get(), chunks.get(), parts, 1, false);
  } catch (const std::exception& failure) {
    throw std::invalid_argument(std::string("cannot be brought into a size that the model reads: ") + failure.what());
  }
  if (status != 0)
    throw std::invalid_argument("cannot be brought into a size that the model reads: " + take_backend_errors());
  const std::string key = key_of(fingerprint_, pixels);
  Text text;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(chunks.get()); ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks.get(), i);
    if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
      std::size_t count = 0;
      const llama_token* const tokens = mtmd_input_chunk_get_tokens_text(chunk, &count);
      if (std::any_of(tokens, tokens + count, [](llama_token token) { return token < 0; })) {
        throw std::invalid_argument("cannot be read: the vocabulary of " + target_->path() +
                                    " lacks the marks that the projector " + path_ + " puts around pictures");
      }
      text.tokens.insert(text.tokens.end(), tokens, tokens + count);
      continue;
    }
    const bool is_causal = !mtmd_decode_use_non_causal(context_.get(), chunk);
    Picture picture;
    picture.num_rows = static_cast<int>(mtmd_input_chunk_get_n_tokens(chunk));
    picture.num_positions = mtmd_input_chunk_get_n_pos(chunk);
    picture.key = key + "-" + std::to_string(i);
    if (!is_causal && picture.num_rows > batch_size_) {
      throw std::invalid_argument("has " + std::to_string(picture.num_rows) + " rows, which must share a pass of " +
                                  std::to_string(batch_size_) + " tokens; raise n_batch (-b)");
    }
    picture.rows = std::make_shared<Rows>(shared_from_this(), Chunk(mtmd_input_chunk_copy(chunk)), is_causal);
    text.add(std::move(picture));
  }
  return text;
}

std::vector<float> Projector::encode(const mtmd_input_chunk* chunk) const {
  const std::lock_guard<std::mutex> lock(encoding_);
  take_backend_errors();
  take_failure();
  int status = 0;
  try {
    const AbortsAsErrors guard;
    status = mtmd_encode_chunk(context_.get(), chunk);
  } catch (const std::exception& failure) {
    throw ModelError(path_ + ": a picture cannot be encoded: " + failure.what());
  }
  const std::string failure = take_failure();
  if (status != 0 || !failure.empty())
    throw ModelError(path_ + ": a picture cannot be encoded: " + (failure.empty() ? take_backend_errors() : failure));
  const float* const rows = mtmd_get_output_embd(context_.get());
  const std::size_t count = mtmd_input_chunk_get_n_tokens(chunk) * idx(row_size());
  return {rows, rows + count};
}

}  // namespace specdec
