// The options that the commands with a Generator share, under llama.cpp's names, and what fills them after parsing.
#pragma once

#include <string>

#include "base/error.h"
#include "cli/options.h"
#include "engine/generator.h"

namespace specdec::cli {

Group model_group(GeneratorOptions& options);
Group sampling_group(Request& request);
Group constraint_group(Request& request);

// The target as the argument of a command: FILE.gguf, OWNER/REPO or a short name (hub/companions.h). A draft is then
// looked for on this machine.
void take_model(CommandLine& line);
void name_model(GeneratorOptions& options, const Positionals& positionals);

// -n, at least `low`; -r; -np; --color. help: replaces the table's.
Option predict_option(Request& request, int low, const std::string& help = "");
Option stop_option(Request& request, const std::string& help = "");
Option parallel_option(GeneratorOptions& options, const std::string& help = "");
Option color_option(std::string& mode);  // for use_color()

// After parsing: without a target, the bundled pair; without drafting (-k 0), no draft model is loaded; models of the
// hub are downloaded. What the draft "auto" means is engine/resolved_draft.h's.
void resolve_models(GeneratorOptions& options);

// Tells which draft was chosen, and what a loaded generator could not do as asked.
void show_notes(const Generator& generator);

// For generations that are compared: if no seed was given, chooses one random seed for all of them.
void fix_seed(Request& request);

// The error's message and its remedy, which names the flag.
std::string with_remedy(const ContextFull& error);

// The error's message with the flag of an option instead of its name in Python.
std::string with_flag(const ArgumentError& error);

}  // namespace specdec::cli
