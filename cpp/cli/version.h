// What this program was built from.
#pragma once

namespace specdec::cli {

extern const char* const version;  // "0.1.0"
extern const char* const build;    // "commit 0123456789, llama.cpp ..., patched"

}  // namespace specdec::cli
