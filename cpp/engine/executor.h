// Runs requests of many threads. One thread, the worker, owns the scheduler: it alone runs models. Other threads submit requests
// and read their handles. What happens to one request does not affect the others.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/request_handle.h"
#include "engine/scheduler.h"

namespace specdec {

// What other threads ask of the worker. Outlives the executor in its handles.
class ExecutorCommands {
 public:
  explicit ExecutorCommands(std::size_t max_unfinished) : max_unfinished_(max_unfinished) {}

  struct Taken {
    std::deque<std::shared_ptr<RequestHandle>> submitted;
    std::vector<std::shared_ptr<RequestHandle>> cancelled;
    bool closed = false;
  };

  void submit(std::shared_ptr<RequestHandle> handle);  // throws as Executor::submit
  void cancel(std::shared_ptr<RequestHandle> handle);
  void close(std::exception_ptr reason);  // ends waiting; later submissions throw `reason`

  // Into `taken`, whose contents are dropped. Waits at most so long for the next command. Allocates nothing, so that it cannot fail.
  void take(std::chrono::milliseconds patience, Taken& taken);
  void finished();  // one request
  std::size_t num_unfinished() const;

  // Cheap, for use while models run: whether there is something that a pass might be interrupted for.
  bool is_urgent() const { return is_urgent_; }
  bool is_closed() const;
  // Whether any of the requests to be cancelled fulfils the predicate.
  bool any_cancelled(const std::function<bool(const RequestHandle&)>& predicate) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  Taken waiting_;
  std::exception_ptr closed_because_;
  std::size_t num_unfinished_ = 0;
  const std::size_t max_unfinished_;
  std::atomic<bool> is_urgent_{false};
};

class Executor {
 public:
  struct Options {
    std::size_t max_unfinished = 1024;                 // requests that run or wait
    int max_prompt_tokens = 512;                       // read between two looks at what other threads ask for
    std::function<std::string(const Text&)> drafting;  // what a handle says of its request's drafts; null: nothing
  };
  using CancelCheck = std::function<bool()>;

  // The scheduler and its models belong to the executor until close(). set_cancel_check: sets what models ask regularly while they
  // run, on the thread that runs them; true makes them throw Cancelled.
  Executor(Scheduler& scheduler, std::function<void(CancelCheck)> set_cancel_check, const Options& options);
  ~Executor() { close(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // On any thread. Throws QueueFull; Cancelled once closed.
  std::shared_ptr<RequestHandle> submit(std::shared_ptr<Text> text);

  std::size_t num_unfinished() const { return commands_->num_unfinished(); }

  // Ends all requests with Cancelled and the worker. Any thread but the worker may call this, one at a time.
  void close();

 private:
  using Unfinished = std::map<std::int64_t, std::shared_ptr<RequestHandle>>;  // by the id of the text

  void work();
  std::chrono::milliseconds patience() const;
  void keep_all() const;
  void run();
  void begin(const std::shared_ptr<RequestHandle>& handle);
  void deliver(const Event& event);
  void forget(Unfinished::iterator request);
  void report_drafting(RequestHandle& handle) const;
  void end(Unfinished::iterator request, std::exception_ptr error);
  void end_all(const std::exception_ptr& error);
  bool must_interrupt() const;

  Scheduler& scheduler_;
  const std::function<void(CancelCheck)> set_cancel_check_;
  const Options options_;
  const std::shared_ptr<ExecutorCommands> commands_;
  Unfinished unfinished_;          // the worker's
  ExecutorCommands::Taken taken_;  // likewise
  std::thread worker_;
};

}  // namespace specdec
