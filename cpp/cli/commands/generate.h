// specdec generate: continues a prompt.
#pragma once

namespace specdec::cli {

int run_generate(int argc, const char* const* argv);

}  // namespace specdec::cli
