// The options that every command with a Generator shares, under llama.cpp's names.
#pragma once

#include "cli/options.h"
#include "engine/generator.h"

namespace specdec::cli {

Group model_group(GeneratorOptions& options);
Group sampling_group(Request& request);

// -n, at least `low`; -r; -np. help: replaces the table's.
Option predict_option(Request& request, int low, const std::string& help = "");
Option stop_option(Request& request, const std::string& help = "");
Option parallel_option(GeneratorOptions& options);

// After parsing: without a target, the bundled pair; without drafting (-k 0), no draft model is loaded. A draft
// larger than the target gets a warning.
void resolve_models(GeneratorOptions& options);

// For generations that are compared: if no seed was given, chooses one random seed for all of them.
void fix_seed(Request& request);

}  // namespace specdec::cli
