// Files that hold only a drafting head for another model.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

enum class HeadKind {
  none,    // a whole model
  eagle3,  // a layer that reads the inputs of three of the target's layers
  mtp,     // multi-token prediction layers of the target's architecture, without the layers before them
  // Gemma 4's: layers that attend to the keys and values of the target's last two layers, and keep none of their own.
  assistant,
  block,  // fills a block of places in one pass (DFlash, DSpark: block_file.h)
  other   // kinds that cannot be used
};

const char* name(HeadKind kind);

struct HeadFile {
  HeadKind kind = HeadKind::none;
  std::string name;                // for messages: "an EAGLE-3 head"
  std::vector<int> target_layers;  // layers whose inputs it reads; the number of layers stands for the last layer's
                                   // output. Empty: that output
  std::string unsupported;         // for kind other: what cannot be used, in the plural
};

// Reads only metadata; the layers of a damaged head are left out.
HeadFile head_file(const std::vector<GgufFile>& parts);

// Throws ModelError if the file holds only a head although a whole model is needed.
void reject_head_alone(const std::vector<GgufFile>& parts);

// Throws ModelError for a head that is damaged, cannot be used, or was not made for this target. Does not compare the
// vocabularies.
void check_head_for(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target);

}  // namespace specdec
