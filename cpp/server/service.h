// Shared by all endpoints: the generator, the defaults of requests, and the limits of the server.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/index.h"
#include "engine/generator.h"
#include "server/metrics.h"

namespace specdec::server {

struct ServiceOptions {
  Request defaults;           // values of missing fields; its max_tokens is also the most that a request may ask for,
  bool limits_tokens = true;  // unless this is false
  std::string model_path;     // for /props
  std::string model_name;     // the clients' name of the model
  std::string template_variables = "{}";        // JSON: defaults of "chat_template_kwargs"
  std::string build;                            // version and sources, for system_fingerprint
  bool has_strict_fields = false;               // unknown fields of requests are errors
  bool has_page = true;                         // at /, for browsers
  enum class Overflow { of_api, error, drop };  // of_api: drop for Ollama's chats, an error for the others
  Overflow overflow = Overflow::of_api;         // of conversations that do not fit the context
  bool reads_picture_files = false;             // pictures may be paths of this machine; for the command line
  bool fetches_pictures = false;                // pictures may be http(s) URLs of public hosts
  std::string slot_folder;                      // for caches of slots that clients save; empty: clients cannot
  bool continues_answers = true;     // continues an assistant's message at the end of a conversation, unless a request
                                     // says otherwise
  std::shared_ptr<Metrics> metrics;  // shared by all models; null: new ones
  int request_seconds = 600;         // time limit of a request; 0: no limit
  std::chrono::seconds ping_interval{30};  // for streams in which nothing happens; 0 or less: no pings
};

class Service {
 public:
  Service(Generator& generator, int max_queue_size, ServiceOptions options);

  const ServiceOptions& options() const { return options_; }
  const Generator& generator() const { return generator_; }
  Generator& generator() { return generator_; }
  Metrics& metrics() { return *options_.metrics; }

  // cancelled: asked while long prompts are tokenized. Throws what Generator::submit throws; ApiError after
  // close_queue().
  std::shared_ptr<RequestHandle> submit(const Request& request, const std::function<bool()>& cancelled);

  // The same for Generator::embed.
  std::vector<float> embed(const std::vector<Token>& tokens, const std::function<bool()>& cancelled);

  std::size_t num_slots() const { return idx(generator_.max_sequences()); }
  std::size_t capacity() const { return num_slots() + max_queue_size_; }  // requests that run or wait
  std::size_t num_unfinished() const { return generator_.num_unfinished(); }
  std::size_t num_processing() const;  // in slots
  // The running requests by slot.
  struct Running {
    std::shared_ptr<const RequestHandle> handle;
    std::shared_ptr<const Request> request;  // without its prompt
  };
  std::map<int, Running> running();

  void close_queue() { is_closed_ = true; }  // rejects later requests; those that run or wait continue
  bool is_closed() const { return is_closed_; }
  void cancel_all() { generator_.close(); }

  // Identifies the server that made a text: the same fingerprint, request and seed repeat the text.
  std::string system_fingerprint() const { return "build " + options_.build + "; a seed repeats its text"; }

 private:
  void remember(const std::shared_ptr<RequestHandle>& handle, const Request& request);

  Generator& generator_;
  const ServiceOptions options_;
  const std::size_t max_queue_size_;
  std::atomic<bool> is_closed_{false};

  struct Submitted {
    std::weak_ptr<const RequestHandle> handle;
    std::shared_ptr<const Request> request;
  };
  std::mutex mutex_;
  std::vector<Submitted> submitted_;  // guarded by mutex_; includes, for a while, those that have ended
};

}  // namespace specdec::server
