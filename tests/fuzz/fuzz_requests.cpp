// JSON as the value of every option of a request: it is set, and then right, or rejected as an invalid argument.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/request_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto json = nlohmann::ordered_json::parse(input, input + size, nullptr, false);
  if (json.is_discarded()) return 0;
  for (const specdec::RequestOption& option : specdec::request_options()) {
    specdec::Request request;
    try {
      specdec::set_option(request, option, json);
    } catch (const std::invalid_argument&) {
      continue;
    }
    option.check(option.get(request));
    try {
      request.prompt = "a";
      request.validate();
    } catch (const std::invalid_argument&) {
    }
  }
  return 0;
}
