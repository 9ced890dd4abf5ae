// `specdec perplexity`: how well a model predicts a text, and how far it is from a reference model.
#pragma once

namespace specdec::cli {

int run_perplexity(int argc, const char* const* argv);

}  // namespace specdec::cli
