// A file with the KV caches of a prompt that was read, so that a later process need not read it again.
//
// Little-endian: "SDPREFIX", u32 version, then fields of u64 length and that many bytes: the target's key, the draft's key, the tokens
// (i32 each), the target's cache, the draft's tokens in the cache (u64), the draft's cache; at the end the FNV-1a hash (gguf/fingerprint.h)
// of all before it, 16 hexadecimal digits. Caches are in llama.cpp's format, which checks little: nothing of a file is used before its
// hash is right. That finds damage, not malice: a file from someone else deserves the trust of a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/token.h"

namespace specdec {

// A file that is damaged, or of other models or options: to be made anew.
class UnusablePrefix : public Error {
  using Error::Error;
};

struct PrefixFile {
  std::string target_key, draft_key;  // what a cache depends on beside the tokens; no draft: empty
  std::vector<Token> tokens;
  std::string target_state;
  std::uint64_t num_draft_tokens = 0;  // of `tokens`, the number in the draft's cache
  std::string draft_state;
};

// Writes a temporary file beside `path`, then renames it. Throws Error.
void write_prefix_file(const std::string& path, const PrefixFile& prefix);

// Throws UnusablePrefix, or Error if the file cannot be read.
PrefixFile read_prefix_file(const std::string& path);

}  // namespace specdec
