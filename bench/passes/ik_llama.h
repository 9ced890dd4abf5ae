// The names of llama.cpp that passes.cpp uses, for ik_llama.cpp, whose interface is that of an older one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "llama.h"

inline llama_context* llama_get_memory(llama_context* context) { return context; }
inline llama_pos llama_memory_seq_pos_max(llama_context* context, llama_seq_id sequence) {
  return llama_kv_cache_seq_pos_max(context, sequence);
}
inline void llama_memory_seq_cp(llama_context* context, llama_seq_id from, llama_seq_id to, llama_pos p0,
                                llama_pos p1) {
  llama_kv_cache_seq_cp(context, from, to, p0, p1);
}
inline bool llama_memory_seq_rm(llama_context* context, llama_seq_id sequence, llama_pos p0, llama_pos p1) {
  return llama_kv_cache_seq_rm(context, sequence, p0, p1);
}
inline void llama_memory_clear(llama_context* context, bool) { llama_kv_cache_clear(context); }
inline void llama_model_free(llama_model* model) { llama_free_model(model); }
inline std::size_t llama_state_seq_get_size(llama_context* context, llama_seq_id sequence) {
  return llama_state_seq_get_size(context, sequence, 0);
}
inline std::size_t llama_state_seq_get_data(llama_context* context, std::uint8_t* to, std::size_t size,
                                            llama_seq_id sequence) {
  return llama_state_seq_get_data(context, to, size, sequence, 0);
}
inline std::size_t llama_state_seq_set_data(llama_context* context, const std::uint8_t* from, std::size_t size,
                                            llama_seq_id sequence) {
  return llama_state_seq_set_data(context, from, size, sequence, 0);
}
