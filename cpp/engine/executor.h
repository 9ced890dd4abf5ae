// Runs all requests of a Generator. One thread, the worker, owns the scheduler: it alone runs models. Any thread
// submits requests and reads their handles. What happens to one request does not affect the others.
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

#include "engine/request_handle.h"
#include "engine/scheduler.h"

namespace specdec {

using CancelCheck = std::function<bool()>;  // true: the code that asks throws Cancelled; null: never

// The commands and requests of other threads for the worker. Handles keep it alive after the executor's end.
class ExecutorQueue {
 public:
  explicit ExecutorQueue(std::size_t max_unfinished);

  // Work that the worker's thread does between two passes while the thread that asked for it waits.
  struct Command {
    const std::function<void()>& work;
    const CancelCheck& cancelled;
    bool is_urgent = false;  // interrupts the running pass
    std::exception_ptr error = nullptr;
    bool is_done = false;
  };
  struct Taken {
    std::deque<std::shared_ptr<RequestHandle>> submitted;
    std::deque<Command*> commands;
    bool has_cancellations = false;
    bool is_closed = false;
  };

  void submit(std::shared_ptr<RequestHandle> handle);  // throws what Executor::submit throws
  void run(Command& command);                          // waits until it is done; throws what Executor::run throws
  void wake_for_cancellation() noexcept;
  void close() noexcept;  // ends waiting; later submissions throw Cancelled

  // Moves everything that waits into `taken`, dropping its old contents. Waits at most `patience` for something to do.
  // Allocates nothing, so that it cannot fail.
  void take(std::chrono::milliseconds patience, Taken& taken);
  void finish(Command& command, std::exception_ptr error) noexcept;
  void finish_request();
  std::size_t num_unfinished() const;

  // Whether a pass might have to be interrupted. Cheap enough to ask while models run.
  bool is_urgent() const { return is_urgent_; }
  bool is_closed() const { return is_closed_; }
  bool has_urgent_command() const { return has_urgent_command_; }
  const std::exception_ptr& closing_error() const { return closing_error_; }
  bool is_in_its_process() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_, command_done_;
  Taken waiting_;
  std::size_t num_unfinished_ = 0;
  const std::size_t max_unfinished_;
  const std::exception_ptr closing_error_;  // made in advance, because closing must not fail
  const std::uint64_t process_;
  std::atomic<bool> is_urgent_{false}, has_urgent_command_{false}, is_closed_{false};
};

class Executor {
 public:
  struct Options {
    std::size_t max_unfinished = 1024;  // requests that run or wait
    int max_prompt_tokens = 512;        // read before the worker looks at other threads' commands again
    // What a handle reports about its request's drafts; null: nothing.
    std::function<std::string(const ScheduledRequest&)> drafting;
  };

  // The scheduler and its models belong to the executor until close(). set_cancel_check: installs a check that models
  // call regularly while they run, on the thread that runs them; if it returns true, they throw Cancelled.
  Executor(Scheduler& scheduler, const std::function<void(CancelCheck)>& set_cancel_check, const Options& options);
  ~Executor() { close(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // May be called on any thread. Dropping the handle cancels the request. Throws QueueFull; Cancelled once closed.
  std::shared_ptr<RequestHandle> submit(std::shared_ptr<ScheduledRequest> request);

  // Runs `work` on the worker's thread between two passes, and waits for it. cancelled: asked while models run. Throws
  // what `work` throws; Cancelled once closed. Must not be called from a listener.
  void run(const std::function<void()>& work, const CancelCheck& cancelled = {});

  std::size_t num_unfinished() const { return queue_->num_unfinished(); }

  // Ends all requests with Cancelled, interrupting the running pass, and waits for that.
  void cancel_all() noexcept;
  // Ends all requests with Cancelled and the worker. Any thread but the worker may call this, one at a time. Does
  // nothing in a forked process, which has no worker.
  void close() noexcept;
  bool is_in_its_process() const { return queue_->is_in_its_process(); }
  bool is_closed() const { return queue_->is_closed(); }

 private:
  using Unfinished = std::map<std::int64_t, std::shared_ptr<RequestHandle>>;  // by the request's id

  void work();
  std::chrono::milliseconds patience() const;
  void keep_all() const;
  void obey();
  void end_cancelled();
  void obey(ExecutorQueue::Command& command);
  void begin(const std::shared_ptr<RequestHandle>& handle);
  void deliver(Event event);
  void report_progress();
  void forget(Unfinished::iterator request);
  void report_drafting(RequestHandle& handle) const;
  void end(Unfinished::iterator request, std::exception_ptr error);
  void end_all(const std::exception_ptr& error);
  bool must_interrupt() const;

  Scheduler& scheduler_;
  const Options options_;
  const std::shared_ptr<ExecutorQueue> queue_;
  const std::exception_ptr cancelled_error_;
  Unfinished unfinished_;                                    // the worker's
  ExecutorQueue::Taken taken_;                               // likewise
  const ExecutorQueue::Command* running_command_ = nullptr;  // likewise
  std::thread worker_;
};

}  // namespace specdec
