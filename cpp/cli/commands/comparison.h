// The modes that `bench` and `race` compare: the target without and with a draft, and on request its MXFP6 version (a
// given or a temporary file) likewise.
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
  GeneratorOptions generator;     // resolved: target and draft are named
  std::string mxfp6;              // the target in MXFP6; "auto": quantized into a temporary folder; empty: not compared
  std::vector<std::string> also;  // further targets
  bool sequential = false;        // one file in memory at a time, even if all fit
};
Option mxfp6_option(ComparisonOptions& options);

struct ComparedFile {
  std::string name;          // "F16", "MXFP6", or the name of the file
  GeneratorOptions options;  // with a draft
};

// A way to generate: a file, with or without a draft.
struct Mode {
  std::string name;
  std::size_t file;  // index into files
  bool speculation;
};

struct Comparison {
  std::vector<ComparedFile> files;
  std::vector<Mode> modes;                      // first without, then with a draft, file by file
  std::vector<std::vector<std::size_t>> loads;  // files that are in memory together, one load after another
  std::optional<TemporaryFolder> temporary;     // has the file that we quantized
};

// Checks that disk and memory suffice, then quantizes for "auto". The caller handles termination signals.
// Throws UsageError, Error (stating what is needed and what is available), ModelError, Cancelled.
void prepare(const ComparisonOptions& options, ProgressLine& progress, Comparison& comparison);

}  // namespace specdec::cli
