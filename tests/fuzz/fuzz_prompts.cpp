// A file of prompts: every line is a valid request or an invalid argument, whose message can be written as JSON.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/utf8.h"
#include "cli/prompt_line.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  std::istringstream file(std::string(input, input + size));
  for (std::string line; std::getline(file, line);) {
    try {
      specdec::cli::prompt_line(specdec::cli::parse_line(line), specdec::Request()).id.dump();
    } catch (const std::invalid_argument& error) {
      nlohmann::ordered_json(specdec::valid_utf8(error.what())).dump();
    }
  }
  return 0;
}
