// The options shared by commands with a Generator, with llama.cpp's names, and the steps after parsing them.
#pragma once

#include <string>

#include "base/error.h"
#include "cli/options.h"
#include "engine/generator.h"

namespace specdec::cli {

Group model_group(GeneratorOptions& options);
Group sampling_group(Request& request);
Group constraint_group(Request& request);

// Accepts the target as an argument of a command: FILE.gguf, OWNER/REPO or a short name (hub/companions.h).
void take_model(CommandLine& line);
void name_model(GeneratorOptions& options, const Positionals& positionals);

// The options -n (at least `low`), -r, -np and --color. help: replaces the table's.
Option predict_option(Request& request, int low, const std::string& help = "");
Option stop_option(Request& request, const std::string& help = "");
Option parallel_option(GeneratorOptions& options, const std::string& help = "");
Option color_option(std::string& mode);  // for use_color()

// The draft of a target, however the target was named: none with -k 0, the draft that was given, or else one on this
// machine or the text. engine/resolved_draft.h resolves the draft "auto".
void choose_draft(GeneratorOptions& options);

// To be called after parsing: chooses the bundled pair if no target was given and downloads models of the hub.
void resolve_models(GeneratorOptions& options);

// Prints which draft was chosen, and what a loaded generator could not do as asked.
void show_notes(const Generator& generator);
// Of a model without a chat template that reads conversations.
void note_missing_template(const Generator& generator);

// For generations to be compared: if no seed was given, chooses one random seed for all.
void fix_seed(Request& request);

// The error's message and its remedy, which names the flag.
std::string with_remedy(const ContextFull& error);

// The error's message with the flag of an option instead of its name in Python.
std::string with_flag(const ArgumentError& error);

}  // namespace specdec::cli
