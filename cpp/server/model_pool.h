// The models of a server: one, or several of which each is loaded when a request names it.
//
// Loads and unloads happen on one thread, one after the other, in the order in which requests asked for them. A model
// that answers requests is not unloaded; of the others, the one that was not used for the longest goes first. Where all
// are in use, that one takes no more requests after a while, so that no model waits for ever.
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
    bool loads_by_itself = true;                // false: only load() does
    std::size_t max_waiting = 64;               // requests that wait for a model
    std::chrono::milliseconds patience{10000};  // of one that waits, before a model in use takes no more requests
    ServiceOptions common;                      // of all models
  };
  // Called on the pool's thread, one at a time.
  struct Loader {
    std::function<std::shared_ptr<Service>(const KnownModel&, const LoadProgressCallback&)> load;
    std::function<std::uint64_t(const KnownModel&)> memory_need;  // bytes
    std::function<std::uint64_t()> available_memory;              // bytes; 0: unknown
  };

  explicit ModelPool(const std::shared_ptr<Service>& only);
  // models: their names differ.
  ModelPool(std::vector<KnownModel> models, const Options& options, Loader loader);
  ~ModelPool();  // once nothing is in use
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  // The model, which stays loaded until what is returned is gone. name: as clients write it, with or without ".gguf" or
  // ":latest"; where there is only one model, anything. waiting: called a few times a second until it is loaded; what
  // it throws passes through. Throws ApiError, QueueFull.
  using Waiting = std::function<void(const LoadProgress&)>;
  std::shared_ptr<Service> use(const std::string& name, const Waiting& waiting);
  // Null, or a model that is loaded; does not wait.
  std::shared_ptr<Service> loaded(const std::string& name);

  void load(const std::string& name);    // begins to
  void unload(const std::string& name);  // once it is not in use

  enum class State { unloaded, loading, loaded, unloading };
  struct Status {
    KnownModel model;
    State state = State::unloaded;
    LoadProgress progress{"", 0.0};    // while it is loading
    std::string problem;               // why the last load failed; empty: it did not
    std::shared_ptr<Service> service;  // while it is loaded
  };
  std::vector<Status> statuses();
  Status status(const std::string& name);  // throws ApiError
  const Options& options() const { return options_; }
  bool has_several() const { return loader_.load != nullptr; }

  std::size_t num_unfinished();  // requests that run or wait, for a slot or for a model
  std::size_t num_processing();  // of them, those that run
  void close_queue();            // later requests are rejected, and those that wait for a model
  bool is_closed() const { return is_closed_; }
  void cancel_all();  // ends what runs and what is loaded

 private:
  struct Model {
    KnownModel known;
    State state = State::unloaded;
    std::shared_ptr<Service> service;
    std::size_t num_users = 0, num_waiting = 0;
    std::uint64_t last_use = 0;
    std::optional<std::uint64_t> memory_need;  // none: not known yet
    bool is_asked_for = false;                 // by load()
    bool is_leaving = false;                   // takes no more requests, and is unloaded once nobody uses it
    LoadProgress progress{"", 0.0};
    std::string problem;
    std::uint64_t num_failures = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct Lease;

  Model& find(const std::string& name);
  std::string names() const;
  std::shared_ptr<Service> lease(Model& model);
  void enqueue(Model& model);
  Model* next_wanted();
  Model* leaving();
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
  Model* hurried_ = nullptr;  // is_leaving because of the first of wanted_
  std::size_t num_waiting_ = 0;
  std::uint64_t num_uses_ = 0;
  std::atomic<bool> is_closed_{false};
  bool is_ending_ = false;
  std::thread worker_;  // null: there is one model
};

}  // namespace specdec::server
