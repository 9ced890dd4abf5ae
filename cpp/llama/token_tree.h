// Trees of tokens in llama.cpp's caches (third_party/llama.cpp/patches/0012-trees.patch).
#pragma once

#include <cstdint>
#include <vector>

#include "llama/token_number.h"

struct llama_memory_i;

namespace specdec {

bool can_hold_trees(llama_memory_i* memory);

// The cells of the slot from the position on, those of the next pass included, are the nodes of a tree. visible: of
// each node, the nodes that it sees, as bits.
void set_tree(llama_memory_i* memory, int slot, Position position, const std::vector<std::uint64_t>& visible);

// Keeps these nodes, ascending, in the cells where a slot without a tree has them.
void keep_nodes(llama_memory_i* memory, int slot, const std::vector<int>& nodes);

}  // namespace specdec
