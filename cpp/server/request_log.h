// What the log says of a request: one line, without its text.
#pragma once

#include <cstdint>
#include <string>

#include "speculative/stats.h"

namespace specdec::server {

struct RequestRecord {
  std::int64_t unix_ms = 0;  // when the whole request was there
  std::string method, path;
  std::string model;     // the one that answered, if there are several
  int status = 0;        // of the reply; 0: none was sent
  double seconds = 0.0;  // until all of the reply was sent
  Stats stats;           // of all answers
};

// Checks that monitors make all the time are logged only if they fail.
bool is_worth_logging(const RequestRecord& record);

// Without a line break. Control characters are escaped.
std::string text_line(const RequestRecord& record);
std::string json_line(const RequestRecord& record);

}  // namespace specdec::server
