// The models of a server: one, or several that are loaded when a request names them.
//
// One thread loads and unloads models one after another, in the order in which requests asked for them. A model that
// answers requests is not unloaded; of the others, the least recently used is unloaded first. If all are in use, the
// least recently used takes no more requests after a while, so that no model waits for ever.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "llama/load_progress.h"
#include "server/service.h"

namespace specdec::server {

struct KnownModel {
  std::string name, path;
};

class ModelPool {
 public:
  struct Options {
    std::size_t most = 4;                       // models loaded at once; 0: any number
    bool loads_by_itself = true;                // false: only load() loads models
    std::size_t max_waiting = 64;               // requests that may wait for a model
    std::chrono::milliseconds patience{10000};  // how long a request waits before a model in use takes no more requests
    std::optional<std::chrono::seconds> idle_unload;  // models that nobody used for so long are unloaded; none: never
    ServiceOptions common;                            // of all models
  };
  // The functions are called on the pool's thread, one at a time.
  struct Loader {
    std::function<std::shared_ptr<Service>(const KnownModel&, const LoadProgressCallback&)> load;
    std::function<std::uint64_t(const KnownModel&)> memory_need;  // bytes
    std::function<std::uint64_t()> available_memory;              // bytes; 0: unknown
  };

  explicit ModelPool(const std::shared_ptr<Service>& only);
  // models: with different names.
  ModelPool(std::vector<KnownModel> models, const Options& options, Loader loader);
  ~ModelPool();  // to be called once nothing is in use
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  // Loads the model if necessary; it stays loaded while the returned pointer exists. name: as clients write it, with or
  // without ".gguf" or ":latest"; if there is only one model, any name. waiting: called a few times a second until the
  // model is loaded; its exceptions pass through. Throws ApiError, QueueFull.
  using Waiting = std::function<void(const LoadProgress&)>;
  std::shared_ptr<Service> use(const std::string& name, const Waiting& waiting) {
    return use(name, waiting, options_.idle_unload);
  }
  // keep: how long the model stays loaded once this use has ended and no other follows; none: for ever.
  using Keep = std::optional<std::chrono::seconds>;
  std::shared_ptr<Service> use(const std::string& name, const Waiting& waiting, const Keep& keep);
  // The model if it is loaded, otherwise null; does not wait.
  std::shared_ptr<Service> loaded(const std::string& name);

  void load(const std::string& name);    // begins to load
  void unload(const std::string& name);  // when it is no longer in use

  enum class State { unloaded, loading, loaded, unloading };
  struct Status {
    KnownModel model;
    State state = State::unloaded;
    LoadProgress progress{"", 0.0};    // while it is loading
    std::string problem;               // why the last load failed; empty if it did not
    std::shared_ptr<Service> service;  // while it is loaded
    Keep expires_in;                   // if nobody uses it; none: never
  };
  std::vector<Status> statuses();
  Status status(const std::string& name);  // throws ApiError
  const Options& options() const { return options_; }
  bool has_several() const { return loader_.load != nullptr; }

  std::size_t num_unfinished();  // requests that run or wait, for a slot or for a model
  std::size_t num_processing();  // those that run
  void close_queue();            // rejects later requests, and those that wait for a model
  bool is_closed() const { return is_closed_; }
  void cancel_all();  // ends all running requests, and the pool

 private:
  struct Model {
    KnownModel known;
    State state = State::unloaded;
    std::shared_ptr<Service> service;
    std::size_t num_users = 0, num_waiting = 0;
    std::uint64_t last_use = 0;
    Keep keep;                                         // of its last use
    std::chrono::steady_clock::time_point idle_since;  // if num_users is 0
    std::optional<std::uint64_t> memory_need;          // none: not known yet
    bool is_asked_for = false;                         // by load()
    bool is_leaving = false;                           // takes no more requests and is unloaded once nobody uses it
    LoadProgress progress{"", 0.0};
    std::string problem;
    std::uint64_t num_failures = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct Lease;

  Model& find(const std::string& name);
  std::string names() const;
  std::shared_ptr<Service> lease(Model& model, bool is_use);
  void enqueue(Model& model);
  Model* next_wanted();
  Model* leaving();
  static std::optional<std::chrono::steady_clock::time_point> end_of(const Model& model);
  Model* expired();
  void wait_for_change(Lock& lock);
  Model* oldest(bool in_use);
  bool has_room(const Model& model) const;
  void work();
  bool make_room(Lock& lock, Model& model);
  std::uint64_t memory_need(Lock& lock, const KnownModel& model) const;
  void hurry();
  void load(Lock& lock, Model& model);
  void unload(Lock& lock, Model& model);

  const Options options_;
  const Loader loader_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Model> models_;  // never moved
  std::deque<Model*> wanted_;
  std::optional<std::chrono::steady_clock::time_point> first_waits_since_;  // the first of wanted_, for room
  Model* hurried_ = nullptr;  // the model that is_leaving to make room for the first of wanted_
  std::size_t num_waiting_ = 0;
  std::uint64_t num_uses_ = 0;
  std::atomic<bool> is_closed_{false};
  bool is_ending_ = false;
  std::thread worker_;  // not started if there is only one model
};

}  // namespace specdec::server
