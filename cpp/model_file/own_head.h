// Drafting heads inside model files: multi-token prediction ("MTP", "NextN") layers after the other layers.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

struct OwnHeadInfo {
  int num_layers = 0;             // 0: no head. If there are several, each drafts its own place
  bool rows_need_logits = false;  // llama.cpp computes hidden rows only for tokens that it computes logits for
  bool is_damaged = false;
  std::string problem;  // why it cannot draft and what to do instead; empty if it can
};

bool has_layer(const std::vector<GgufFile>& parts, int layer);  // whether the files have any tensor of the layer
OwnHeadInfo own_head(const std::vector<GgufFile>& parts);
inline bool has_own_head(const std::vector<GgufFile>& parts) { return own_head(parts).problem.empty(); }
inline bool has_own_head(const std::string& path) { return has_own_head(GgufFile::read_parts(path)); }

}  // namespace specdec
