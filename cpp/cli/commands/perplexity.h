// `specdec perplexity`: how well a model predicts a text, and how far it is from a reference model.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_perplexity();
int run_perplexity(int argc, const char* const* argv);

}  // namespace specdec::cli
