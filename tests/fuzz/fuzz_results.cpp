// Bytes as what an interrupted run left of its results: they are continued, started again or rejected, and no result
// that was read is lost.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "cli/results_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("specdec-fuzz-" + std::to_string(getpid()))).string();
  const nlohmann::ordered_json begun_with = {{"a", 1}};
  const std::string first = begun_with.dump() + "\n";  // most inputs are about what follows this line
  std::ofstream part(path + ".part", std::ios::binary);
  if (size > 0 && input[0] % 8 != 0) part << first;
  part.write(reinterpret_cast<const char*>(input), static_cast<std::streamsize>(size));
  part.close();
  try {
    specdec::cli::ResultsFile results(path, begun_with);
    const std::size_t before = results.size();
    const bool is_new = !results.has(7);
    results.add({{"index", 7}, {"text", "x"}});
    if (results.size() != before + (is_new ? 1 : 0)) std::abort();
    results.finish();
    std::ifstream file(path, std::ios::binary);
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    if (lines != results.size()) std::abort();
  } catch (const specdec::Error&) {
  }
  std::remove(path.c_str());
  std::remove((path + ".part").c_str());
  std::remove((path + ".sorted").c_str());
  return 0;
}
