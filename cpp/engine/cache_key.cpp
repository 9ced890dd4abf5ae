#include "engine/cache_key.h"

#include <filesystem>

#include "base/isa.h"
#include "gguf/fingerprint.h"

namespace specdec {
namespace {

std::string instructions() {
  const Isa* const isa = default_isa().isa;
  return isa == nullptr ? "" : feature_names(isa->usable());
}

CacheKey cache_key(const GeneratorOptions& options, const std::string& path, const Place& place) {
  CacheKey key;
  key.model = model_fingerprint(path);
  key.kv_type = options.kv_type;
  key.num_sequences = options.max_sequences;
  key.instructions = instructions();
  key.place = place.key;
  return key;
}

}  // namespace

std::string CacheKey::text() const {
  const std::string own_head = num_head_layers > 0 ? " mtp " + std::to_string(num_head_layers) : "";
  return "model " + model + ", " + kv_type + ", " + std::to_string(num_sequences) + " sequences, " + instructions +
         place + own_head + weights;
}

CacheKey target_cache_key(const GeneratorOptions& options, const LoadedModels& models) {
  return cache_key(options, options.target, models.place_of_target());
}

CacheKey draft_cache_key(const GeneratorOptions& options, const LoadedModels& models) {
  const Model* const draft = models.draft_model();
  CacheKey key =
      draft == nullptr ? target_cache_key(options, models) : cache_key(options, draft->path(), models.place_of_draft());
  if (draft == nullptr) key.num_head_layers = static_cast<int>(models.draft_contexts().size());
  else key.weights = models.plan().draft_weights;
  return key;
}

std::string costs_key(const GeneratorOptions& options, const LoadedModels& models) {
  const auto key_of = [](const Model& model) {
    return std::filesystem::path(model.path()).filename().string() + " " + std::to_string(model.weight_bytes());
  };
  const Model* const draft = models.draft_model();
  std::string key = "target " + key_of(models.target_model()) + ", draft " +
                    (draft == nullptr ? to_text(models.plan().draft_source) : key_of(*draft)) + ", weights " +
                    models.plan().draft_weights + ", caches " + options.kv_type + ", threads " +
                    std::to_string(models.threads()->size()) + ", " + instructions();
  if (models.plan().streaming.is_needed()) key += ", memory " + std::to_string(models.plan().streaming.budget);
  for (const bool option : {options.use_mmap, options.repack, options.suffix}) key += option ? ", yes" : ", no";
  for (const std::string& server : options.rpc_servers) key += ", " + server;
  return key + models.place_of_target().key + models.place_of_draft().key;
}

}  // namespace specdec
