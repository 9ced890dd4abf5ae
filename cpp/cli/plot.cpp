#include "cli/plot.h"

#include <vector>

#include "base/error.h"
#include "platform/output_file.h"
#include "platform/process.h"

namespace specdec::cli {
namespace {

// Python's own message about a module that is missing would say less.
constexpr const char* program =
    "import sys\n"
    "try:\n"
    "    import matplotlib.figure\n"
    "    from specdec_native.plot import main\n"
    "except ImportError:\n"
    "    sys.exit(9)\n"
    "sys.exit(main())\n";
constexpr int is_missing = 9;

void run_plot(std::vector<std::string> options, const std::string& file, const std::string& json) {
  std::vector<std::string> command = {"python3", "-c", program};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", file});
  int status = 0;
  try {
    status = run_program(command, json);
  } catch (const Error& error) {
    throw Error(std::string("no plot: ") + error.what());
  }
  if (status == is_missing)
    throw Error("no plot: python3 needs matplotlib and specdec_native; pip install \"specdec_native[plot]\"");
  if (status != 0) throw Error("no plot");
}

}  // namespace

void check_plot(const std::string& file, bool overwrites) {
  check_output(file, overwrites, "use --force to replace it");
  run_plot({"--check", "--force"}, file, "");
}

void draw_plot(const std::string& file, bool overwrites, const std::string& json) {
  std::vector<std::string> options;
  if (overwrites) options.push_back("--force");
  run_plot(options, file, json);
}

}  // namespace specdec::cli
