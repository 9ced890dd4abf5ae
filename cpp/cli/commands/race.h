// specdec race: a target as it is, in MXFP6, and with a draft, side by side at the pace that each was measured at.
#pragma once

namespace specdec::cli {

int run_race(int argc, const char* const* argv);

}  // namespace specdec::cli
