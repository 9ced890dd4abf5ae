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

  // In Prometheus' text format, under llama-server's names where it has the same metric. processing: requests in slots;
  // waiting: those in the queue.
  std::string text(std::size_t processing, std::size_t waiting) const;

 private:
  mutable std::mutex mutex_;
  Stats sum_;
  std::int64_t num_finished_ = 0, num_cancelled_ = 0, num_rejected_ = 0;
};

}  // namespace specdec::server
