// The results of `specdec bench` as text and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/pass_times.h"
#include "speculative/stats.h"

namespace specdec::cli {

struct BenchResult {
  struct File {
    std::string name, path;
    std::uint64_t bytes = 0;
    PassTimes passes;
  };
  struct Mode {
    std::string name;
    std::size_t file = 0;  // index into files
    bool speculation = false;
    std::vector<Stats> rounds;  // each summed over the prompts
  };

  std::string draft;                    // path, "suffix" or "ngram"
  std::string processor, isa, program;  // program: version and build
  std::vector<File> files;
  std::vector<Mode> modes;  // not empty; a mode with speculation follows that of the same file without it
  std::size_t num_prompts = 0;
  bool are_questions = false;  // prompts are in the model's chat template
  int max_tokens = 0, n_threads = 0;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  bool interleaved = false;  // all files took turns in every round
};

std::string bench_text(const BenchResult& result);             // 80 to 100 columns
nlohmann::ordered_json bench_json(const BenchResult& result);  // times in seconds

}  // namespace specdec::cli
