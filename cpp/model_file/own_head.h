// Drafting heads in the files of models: multi-token prediction ("MTP", "NextN") layers after the others.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

struct OwnHeadInfo {
  int num_layers = 0;             // 0: no head. Each of several layers drafts its own place
  bool rows_need_logits = false;  // llama.cpp makes hidden rows of those tokens only that it makes logits of
  bool is_damaged = false;
  std::string problem;  // why it cannot draft, and what to do instead; empty: it can
};

bool has_layer(const std::vector<GgufFile>& parts, int layer);  // any tensor of it
OwnHeadInfo own_head(const std::vector<GgufFile>& parts);
inline bool has_own_head(const std::vector<GgufFile>& parts) { return own_head(parts).problem.empty(); }
inline bool has_own_head(const std::string& path) { return has_own_head(GgufFile::read_parts(path)); }

}  // namespace specdec
