// A request's entry in the log: one line without its text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "speculative/stats.h"

namespace specdec::server {

struct RequestRecord {
  std::int64_t unix_ms = 0;  // when the request was complete
  std::string method, path;
  std::string model;                        // the model that answered, if there are several
  int status = 0;                           // of the reply; 0: none was sent
  double seconds = 0.0;                     // until the whole reply was sent
  Stats stats;                              // summed over all answers
  std::vector<std::string> unknown_fields;  // of the body, perhaps misspelt
  std::size_t num_dropped_messages = 0;     // of a conversation that did not fit the context
  std::vector<std::string> notes;           // what was done otherwise than asked
};

// The frequent checks of monitors are logged only if they fail.
bool is_worth_logging(const RequestRecord& record);

// The entry without a line break, with control characters escaped.
std::string text_line(const RequestRecord& record);
std::string json_line(const RequestRecord& record);

}  // namespace specdec::server
