// Drafting heads in files: multi-token prediction ("MTP", "NextN") layers after those of a model, and files that are nothing else.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

struct OwnHeadInfo {
  int num_layers = 0;  // 0: the file has no head
  bool is_damaged = false;
  std::string problem;  // why it cannot draft, and what to do instead; empty: it can
};

// Throws ModelError for a file that has only a drafting head (EAGLE-3, DFlash, assistants, MTP layers alone), not a whole model.
void reject_head_alone(const std::vector<GgufFile>& parts);

OwnHeadInfo own_head(const std::vector<GgufFile>& parts);
inline bool has_own_head(const std::string& path) { return own_head(GgufFile::read_parts(path)).problem.empty(); }

}  // namespace specdec
