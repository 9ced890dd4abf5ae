#include "llama/token_tree.h"

#include "llama-kv-cache-iswa.h"
#include "llama-kv-cache.h"

namespace specdec {
namespace {

// Calls f(cache) for the caches of all layers. Returns false if the memory is of another kind.
template <class Function>
bool for_each_cache(llama_memory_i* memory, Function f) {
  if (auto* const cache = dynamic_cast<llama_kv_cache*>(memory)) {
    f(*cache);
    return true;
  }
  auto* const both = dynamic_cast<llama_kv_cache_iswa*>(memory);
  if (both == nullptr) return false;
  f(*both->get_base());
  f(*both->get_swa());
  return true;
}

}  // namespace

bool can_hold_trees(llama_memory_i* memory) {
  return for_each_cache(memory, [](llama_kv_cache&) {});
}

void set_tree(llama_memory_i* memory, int slot, Position position, const std::vector<std::uint64_t>& visible) {
  for_each_cache(memory, [&](llama_kv_cache& cache) { cache.seq_set_tree(slot, position.value, visible); });
}

void keep_nodes(llama_memory_i* memory, int slot, const std::vector<int>& nodes) {
  const std::vector<std::uint32_t> kept(nodes.begin(), nodes.end());
  for_each_cache(memory, [&](llama_kv_cache& cache) { cache.seq_keep_nodes(slot, kept); });
}

}  // namespace specdec
