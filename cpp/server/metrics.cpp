#include "server/metrics.h"

#include "base/argument.h"

namespace specdec::server {
namespace {

std::string metric(const char* type, const std::string& name, const char* help, double value) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n" + name + " " + number_text(value) +
         "\n";
}

std::string counter(const std::string& name, const char* help, double value) {
  return metric("counter", name, help, value);
}
std::string gauge(const std::string& name, const char* help, double value) {
  return metric("gauge", name, help, value);
}

}  // namespace

void Metrics::add(const Stats& stats, bool is_cancelled) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sum_ += stats;
  ++(is_cancelled ? num_cancelled_ : num_finished_);
}

void Metrics::add_rejected() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++num_rejected_;
}

std::string Metrics::text(std::size_t processing, std::size_t waiting) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = [](std::int64_t value) { return static_cast<double>(value); };
  return counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.",
                 count(sum_.prompt_tokens_read())) +
         counter("llamacpp:prompt_tokens_cached_total", "Number of prompt tokens found in the cache.",
                 count(sum_.prompt_cached_tokens)) +
         counter("llamacpp:prompt_seconds_total", "Prompt process time.", sum_.prompt_seconds) +
         counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.", count(sum_.tokens)) +
         counter("llamacpp:tokens_predicted_seconds_total", "Generation process time.", sum_.seconds) +
         counter("llamacpp:n_decode_total", "Number of passes of the target over sequences.",
                 count(sum_.target_calls)) +
         counter("llamacpp:spec_decode_num_draft_tokens_total", "Number of drafted tokens.", count(sum_.drafted)) +
         counter("llamacpp:spec_decode_num_accepted_tokens_total", "Number of accepted drafted tokens.",
                 count(sum_.accepted)) +
         counter("llamacpp:spec_decode_num_drafts_total", "Number of passes of the draft model.",
                 count(sum_.draft_calls)) +
         gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.",
               sum_.prompt_tokens_per_second()) +
         gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
               sum_.tokens_per_second()) +
         gauge("llamacpp:requests_processing", "Number of requests processing.", static_cast<double>(processing)) +
         gauge("llamacpp:requests_deferred", "Number of requests deferred.", static_cast<double>(waiting)) +
         counter("specdec:requests_finished_total", "Requests that ended by themselves.", count(num_finished_)) +
         counter("specdec:requests_cancelled_total", "Requests whose client disconnected or whose time limit passed.",
                 count(num_cancelled_)) +
         counter("specdec:requests_rejected_total",
                 "Requests rejected because the queue was full or the server was shutting down.", count(num_rejected_));
}

}  // namespace specdec::server
