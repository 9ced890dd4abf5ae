#include "cli/plot.h"

#include <vector>

#include "base/error.h"
#include "platform/process.h"

namespace specdec::cli {
namespace {

void run_plot(std::vector<std::string> options, const std::string& file, const std::string& json) {
  std::vector<std::string> command = {"python3", "-m", "specdec_native.plot"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", file});
  int status = 0;
  try {
    status = run_program(command, json);
  } catch (const Error& error) {
    throw Error(std::string("no plot: ") + error.what());
  }
  if (status != 0)
    throw Error("no plot: python3 -m specdec_native.plot failed; it needs pip install \"specdec_native[plot]\"");
}

}  // namespace

void check_plot(const std::string& file) { run_plot({"--check"}, file, ""); }
void draw_plot(const std::string& file, const std::string& json) { run_plot({}, file, json); }

}  // namespace specdec::cli
