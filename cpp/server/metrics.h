// Counters of all requests, for GET /metrics.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "speculative/stats.h"

namespace specdec::server {

class Metrics {
 public:
  // Counts a request that ended or was cancelled.
  void add(const Stats& stats, bool is_cancelled);
  void add_rejected();  // the queue was full, or the server was shutting down

  // The counters in Prometheus' text format, with llama-server's names for the metrics that it also has. processing:
  // requests in slots; waiting: requests in the queue.
  std::string text(std::size_t processing, std::size_t waiting) const;

 private:
  mutable std::mutex mutex_;
  Stats sum_;
  std::int64_t num_finished_ = 0, num_cancelled_ = 0, num_rejected_ = 0;
};

}  // namespace specdec::server
