#include "llama/model.h"

#include <cstdlib>
#include <vector>

#include "llama.h"
#include "llama/available_memory.h"
#include "llama/backend.h"
#include "llama/gguf_file.h"
#include "speculative/error.h"

namespace specdec {
namespace {

std::string metadata(const llama_model* model, const std::string& key) {
  char value[256];
  return llama_model_meta_val_str(model, key.c_str(), value, sizeof(value)) < 0 ? std::string() : std::string(value);
}

// Memory promised but not there would end the process while the weights are read.
void check_memory(const std::vector<GgufFile>& parts) {
  std::uint64_t needed = 0;
  for (const GgufFile& part : parts) needed += part.file_size;
  const std::uint64_t available = available_memory();
  if (available == 0 || needed < available) return;
  throw ModelError(parts.front().path + ": not enough memory to read the weights into: " + std::to_string((needed >> 20) + 1) + " MiB needed, " +
                   std::to_string(available >> 20) + " MiB available. Leave them in the mapped file (mmap=True, no --no-mmap)");
}

}  // namespace

void Model::Free::operator()(llama_model* model) const { llama_model_free(model); }

Model::Model(const std::string& path, int num_gpu_layers, bool use_mmap) : path_(path) {
  const std::vector<GgufFile> parts = GgufFile::read_parts(path);  // throws with a clear text where llama.cpp would abort
  if (!use_mmap && num_gpu_layers == 0) check_memory(parts);
  start_backend();
  take_backend_errors();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = num_gpu_layers;
  if (!use_mmap) params.load_mode = LLAMA_LOAD_MODE_NONE;
  params.use_extra_bufts = false;  // repacked weights would leave the mapped file and round differently per batch size
  {
    const AbortsAsErrors guard;
    model_.reset(llama_model_load_from_file(parts.front().path.c_str(), params));
  }
  if (!model_) throw ModelError(path + ": llama.cpp cannot load this model: " + take_backend_errors());
  if (llama_model_has_encoder(get()) || !llama_model_has_decoder(get())) {
    throw ModelError(path + ": architecture " + architecture() + " is not a decoder-only language model; only those can generate here");
  }
  if (llama_vocab_type(llama_model_get_vocab(get())) == LLAMA_VOCAB_TYPE_NONE) {
    throw ModelError(path + ": the file has no vocabulary; convert the model with its tokenizer");
  }
}

Vocabulary Model::vocabulary() const { return Vocabulary(llama_model_get_vocab(get())); }
int Model::trained_context() const { return llama_model_n_ctx_train(get()); }
std::uint64_t Model::num_parameters() const { return llama_model_n_params(get()); }
bool Model::can_roll_back() const { return !llama_model_is_recurrent(get()) && !llama_model_is_hybrid(get()); }
std::string Model::architecture() const { return metadata(get(), "general.architecture"); }

int Model::head_size(const char* key) const {
  const int value = std::atoi(metadata(get(), architecture() + key).c_str()), heads = llama_model_n_head(get());
  return value > 0 ? value : heads > 0 ? llama_model_n_embd(get()) / heads : 0;
}

std::uint64_t Model::cache_bytes(int context, KvType type) const {
  const auto numbers = static_cast<std::uint64_t>(key_size() + value_size());
  const std::uint64_t per_token = type == KvType::q8_0 ? numbers * 34 / 32 : numbers * 2;
  return static_cast<std::uint64_t>(llama_model_n_layer(get())) * static_cast<std::uint64_t>(llama_model_n_head_kv(get())) * per_token *
         static_cast<std::uint64_t>(context);
}

}  // namespace specdec
