// What all endpoints share: the generator, the defaults of requests, and the limits of the server.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/index.h"
#include "engine/generator.h"
#include "server/metrics.h"

namespace specdec::server {

struct ServiceOptions {
  Request defaults;        // of what requests do not say; its max_tokens is also the most that one may ask for
  std::string model_path;  // for /props
  std::string model_name;  // what clients call the model
  std::string template_variables =
      "{}";                   // JSON: what templates know of what requests do not say in "chat_template_kwargs"
  std::string build;          // version and sources, for system_fingerprint
  bool has_page = true;       // at /, for browsers
  int request_seconds = 600;  // a request takes longest; 0: no limit
};

class Service {
 public:
  Service(Generator& generator, int max_queue_size, ServiceOptions options);

  const ServiceOptions& options() const { return options_; }
  const Generator& generator() const { return generator_; }
  Metrics& metrics() { return metrics_; }

  // cancelled: asked while long prompts are tokenized. Throws as Generator::submit does; ApiError once close_queue()
  // was called.
  std::shared_ptr<RequestHandle> submit(const Request& request, const std::function<bool()>& cancelled);

  // The same for Generator::embed.
  std::vector<float> embed(const std::vector<Token>& tokens, const std::function<bool()>& cancelled);

  std::size_t num_slots() const { return idx(generator_.max_sequences()); }
  std::size_t capacity() const { return num_slots() + max_queue_size_; }  // requests that run or wait
  std::size_t num_unfinished() const { return generator_.num_unfinished(); }
  std::size_t num_processing() const;  // in slots

  void close_queue() { is_closed_ = true; }  // later requests are rejected, those that run or wait go on
  bool is_closed() const { return is_closed_; }
  void cancel_all() { generator_.close(); }

  // Which server made a text: a text is repeated by the same fingerprint, request and seed.
  std::string system_fingerprint() const { return "build " + options_.build + "; a seed repeats its text"; }

 private:
  Generator& generator_;
  const ServiceOptions options_;
  const std::size_t max_queue_size_;
  Metrics metrics_;
  std::atomic<bool> is_closed_{false};
};

}  // namespace specdec::server
