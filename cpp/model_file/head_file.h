// Files that hold a drafting head for another model and nothing else.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

enum class HeadKind {
  none,       // a whole model
  eagle3,     // a layer that reads the inputs of three of the target's layers
  mtp,        // multi-token prediction layers of the target's architecture, without the layers before them
  assistant,  // Gemma 4's: layers that attend to the keys and values of the target's last two, and keep none of their
              // own
  block,      // fills a block of places in one pass (DFlash, DSpark: block_file.h)
  other       // kinds that cannot be used
};

const char* name(HeadKind kind);

struct HeadFile {
  HeadKind kind = HeadKind::none;
  std::string name;  // for messages: "an EAGLE-3 head"
  std::vector<int>
      target_layers;        // whose inputs it reads; the number of layers: the output of the last. Empty: that output
  std::string unsupported;  // kind other: what cannot be used, in the plural
};

// Reads metadata only; of a damaged head the layers are left out.
HeadFile head_file(const std::vector<GgufFile>& parts);

// Throws ModelError for a head alone where a whole model is needed.
void reject_head_alone(const std::vector<GgufFile>& parts);

// Throws ModelError for a head that is damaged, cannot be used, or is not one for this target. The vocabularies are not
// compared.
void check_head_for(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target);

}  // namespace specdec
