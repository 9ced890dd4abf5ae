// specdec serve: the OpenAI API over HTTP.
#pragma once

namespace specdec::cli {

int run_serve(int argc, const char* const* argv);

}  // namespace specdec::cli
