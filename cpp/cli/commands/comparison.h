// The modes that `bench` and `race` compare: the target without and with a draft and, on request, the same for its
// MXFP6 version (a given or a temporary file).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/terminal/progress.h"
#include "engine/generator.h"
#include "platform/temporary_folder.h"

namespace specdec::cli {

struct ComparisonOptions {
  GeneratorOptions generator;     // resolved options, which name target and draft
  std::string mxfp6;              // path of the target in MXFP6; "auto": quantize into a temporary folder; empty: do
                                  // not compare
  std::vector<std::string> also;  // further targets
  bool sequential = false;        // one file in memory at a time, even if all fit
};
Option mxfp6_option(ComparisonOptions& options);

struct ComparedFile {
  std::string name;          // "F16", "MXFP6", or the name of the file
  GeneratorOptions options;  // with a draft
};

// A way to generate: a file with or without a draft.
struct Mode {
  std::string name;
  std::size_t file;  // index into files
  bool speculation;
};

struct Comparison {
  std::vector<ComparedFile> files;
  std::vector<Mode> modes;                      // file by file, first without, then with a draft
  std::vector<std::vector<std::size_t>> loads;  // groups of files that are in memory together
  std::optional<TemporaryFolder> temporary;     // contains the file that we quantized
};

// Checks that disk and memory suffice, then quantizes for "auto". The caller handles termination signals.
// Throws UsageError, Error (stating what is needed and what is available), ModelError, Cancelled.
void prepare(const ComparisonOptions& options, ProgressLine& progress, Comparison& comparison);

}  // namespace specdec::cli
