// specdec bench: how fast a target is as it is, in MXFP6, and with a draft.
#pragma once

namespace specdec::cli {

int run_bench(int argc, const char* const* argv);

}  // namespace specdec::cli
