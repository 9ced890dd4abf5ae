// What `bench` and `race` compare: the target as it is, its MXFP6 version (a file beside it, or one made for the occasion),
// and that with a draft.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/terminal/progress.h"
#include "engine/generator.h"

namespace specdec::cli {

constexpr int min_timed_tokens = 8;  // a rate of fewer tells nothing

// A folder of our own that goes with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct ComparisonOptions {
  GeneratorOptions generator;     // resolved: target and draft are named
  std::string mxfp6;              // the target in MXFP6; empty: made in a temporary folder
  std::vector<std::string> also;  // further targets
  bool sequential = false;        // one file in memory at a time, whatever there is room for
};
Option mxfp6_option(ComparisonOptions& options);

struct ComparedFile {
  std::string name;          // "F16", "MXFP6", or the name of the file
  GeneratorOptions options;  // with a draft unless this file runs without one only
};

// A way to produce text.
struct Mode {
  std::string name;
  std::size_t file;  // index into files
  bool speculation;
};

struct Comparison {
  std::vector<ComparedFile> files;
  std::vector<Mode> modes;                      // first without, then with a draft, file by file
  std::vector<std::vector<std::size_t>> loads;  // files to have in memory together, load after load
  std::optional<TemporaryFolder> temporary;     // where a file of ours is
};

// Checks that disk and memory suffice, then makes the MXFP6 file if that is asked for. The caller has caught termination
// signals. Throws UsageError, Error (what is needed, and what there is), ModelError, Cancelled.
void prepare(const ComparisonOptions& options, ProgressLine& progress, Comparison& comparison);

}  // namespace specdec::cli
