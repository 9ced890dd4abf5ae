// specdec info: the contents of a GGUF file, from its header.
#pragma once

namespace specdec::cli {

int run_info(int argc, const char* const* argv);

}  // namespace specdec::cli
