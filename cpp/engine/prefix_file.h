// A file (disk_cache/checked_file.h) with the KV caches of a prompt, so that a later process need not read the prompt
// again. Its fields: the target's key, the draft's key, the tokens (i32), the pictures (JSON: [[place, rows, positions,
// key], ...]), the target's cache, the draft's places in the cache (u64), the draft's cache. Caches are in llama.cpp's
// format, which checks little.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "disk_cache/checked_file.h"
#include "speculative/text.h"

namespace specdec {

struct PrefixFile {
  std::string target_key, draft_key;  // all that a cache depends on except the text; empty without a draft
  Text text;                          // its pictures have no rows
  std::string target_state;
  std::uint64_t num_draft_tokens = 0;  // how many places of it are in the draft's cache
  std::string draft_state;
};

// Replaces prompt caches and empty files only. Throws Error.
void write_prefix_file(const std::string& path, const PrefixFile& prefix);

// Throws UnusableFile, or Error if the file cannot be read.
PrefixFile read_prefix_file(const std::string& path);

// Reads only the text, without checking the whole file. Throws UnusableFile if the part read is damaged, of another
// kind, or for other models; Error if the file cannot be read, which may pass.
Text read_prefix_text(const std::string& path, const std::string& target_key, const std::string& draft_key);

}  // namespace specdec
