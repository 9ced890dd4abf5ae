// A file with the KV caches of a prompt that was read, so that a later process need not read it again
// (cache/checked_file.h). Its fields: the target's key, the draft's key, the tokens (i32), the target's cache, the
// draft's tokens in the cache (u64), the draft's cache. Caches are in llama.cpp's format, which checks little.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/token.h"
#include "cache/checked_file.h"

namespace specdec {

struct PrefixFile {
  std::string target_key, draft_key;  // what a cache depends on besides the tokens; no draft: empty
  std::vector<Token> tokens;
  std::string target_state;
  std::uint64_t num_draft_tokens = 0;  // of `tokens`, the number in the draft's cache
  std::string draft_state;
};

// Throws Error.
void write_prefix_file(const std::string& path, const PrefixFile& prefix);

// Throws UnusableFile, or Error if the file cannot be read.
PrefixFile read_prefix_file(const std::string& path);

// Its tokens alone, without the check of the whole file; none if it is damaged so far, has other keys, or cannot be
// read.
std::vector<Token> read_prefix_tokens(const std::string& path, const std::string& target_key,
                                      const std::string& draft_key);

}  // namespace specdec
