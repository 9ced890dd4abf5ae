// Runs all requests of a Generator. One thread, the worker, owns the scheduler: it alone runs models. Any thread
// submits requests and reads their handles. What happens to one request does not affect the others, and whoever waits
// for a request or a command is released, whatever is thrown.
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

// Work that the worker's thread does between two passes while the thread that asked for it waits.
class Command {
 public:
  // work, cancelled: must live until wait() returns.
  Command(const std::function<void()>& work, const CancelCheck& cancelled, bool is_urgent)
      : work_(work), cancelled_(cancelled), is_urgent_(is_urgent) {}

  bool is_urgent() const { return is_urgent_; }  // interrupts the running pass
  bool is_cancelled() const noexcept;

 private:
  friend class OwnedCommand;
  friend class ExecutorQueue;
  void release(std::exception_ptr error) noexcept;
  void wait();  // until it is released; throws what `work` threw

  const std::function<void()>& work_;
  const CancelCheck& cancelled_;
  const bool is_urgent_;
  std::mutex mutex_;  // of the members below
  std::condition_variable released_;
  bool is_released_ = false;
  std::exception_ptr error_;
};

// The worker's end of a command. Whoever waits is released in any case: by run(), by fail(), or with `if_dropped` when
// the end is destroyed without either.
class OwnedCommand {
 public:
  OwnedCommand(std::shared_ptr<Command> command, std::exception_ptr if_dropped) noexcept
      : command_(std::move(command)), if_dropped_(std::move(if_dropped)) {}
  OwnedCommand(OwnedCommand&&) noexcept = default;
  OwnedCommand& operator=(OwnedCommand&&) = delete;
  ~OwnedCommand() { fail(if_dropped_); }

  const Command& get() const { return *command_; }
  void run() noexcept;  // errors are passed to the thread that waits
  void fail(std::exception_ptr error) noexcept;

 private:
  std::shared_ptr<Command> command_;  // null: released
  std::exception_ptr if_dropped_;
};

// The worker's end of a request's submission. The request ends with `if_dropped` if this is destroyed before take().
class OwnedSubmission {
 public:
  explicit OwnedSubmission(std::exception_ptr if_dropped) noexcept : if_dropped_(std::move(if_dropped)) {}
  OwnedSubmission(OwnedSubmission&&) noexcept = default;
  OwnedSubmission& operator=(OwnedSubmission&&) = delete;
  ~OwnedSubmission() { fail(if_dropped_); }

  void put(std::shared_ptr<RequestHandle> handle) noexcept { handle_ = std::move(handle); }
  const std::shared_ptr<RequestHandle>& get() const { return handle_; }
  std::shared_ptr<RequestHandle> take() noexcept { return std::move(handle_); }  // whoever takes it must end it
  void fail(const std::exception_ptr& error) noexcept;

 private:
  std::shared_ptr<RequestHandle> handle_;  // null: none, or taken
  std::exception_ptr if_dropped_;
};

// The commands and requests of other threads for the worker. Handles keep it alive after the executor's end.
class ExecutorQueue {
 public:
  explicit ExecutorQueue(std::size_t max_unfinished);

  struct Taken {
    std::deque<OwnedSubmission> submitted;
    std::deque<OwnedCommand> commands;
    bool has_cancellations = false;
    bool is_closed = false;
  };

  void submit(std::shared_ptr<RequestHandle> handle);  // throws what Executor::submit throws
  // Waits until it is done; throws what Executor::run throws.
  void run(const std::function<void()>& work, const CancelCheck& cancelled, bool is_urgent);
  void wake_for_cancellation() noexcept;
  void close() noexcept;  // ends waiting; later submissions throw Cancelled

  // Moves everything that waits into `taken`, dropping its old contents. Waits at most `patience` for something to do.
  // Allocates nothing, so that it cannot fail.
  void take(std::chrono::milliseconds patience, Taken& taken);
  void finish_request() noexcept;
  std::size_t num_unfinished() const;
  // The first submission that waits here and is not cancelled; null: none.
  std::shared_ptr<RequestHandle> first_submitted() const;

  // Whether a pass might have to be interrupted. Cheap enough to ask while models run.
  bool is_urgent() const { return is_urgent_; }
  bool is_closed() const { return is_closed_; }
  bool has_urgent_command() const { return has_urgent_command_; }
  const std::exception_ptr& closing_error() const { return closing_error_; }
  bool is_in_its_process() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  Taken waiting_;
  std::size_t num_unfinished_ = 0;
  const std::size_t max_unfinished_;
  const std::exception_ptr closing_error_, dropped_error_;  // made in advance, because closing must not fail
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

  void work() noexcept;
  bool turn();
  std::chrono::milliseconds patience() const;
  void keep_all() const;
  void obey();
  void end_cancelled();
  void obey(OwnedCommand& command) noexcept;
  void begin(OwnedSubmission submission) noexcept;
  void deliver(Event event);
  void report_progress();
  void forget(Unfinished::iterator request) noexcept;
  void report_drafting(RequestHandle& handle) const noexcept;
  void end(Unfinished::iterator request, const std::exception_ptr& error) noexcept;
  void end_all(const std::exception_ptr& error) noexcept;
  bool must_interrupt();
  bool must_interrupt_prompt();
  bool is_worth_ending(const Scheduler::PromptPass& pass) const;
  bool are_all_cancelled() const;

  Scheduler& scheduler_;
  const Options options_;
  const std::shared_ptr<ExecutorQueue> queue_;
  const std::exception_ptr cancelled_error_;
  Unfinished unfinished_;                     // the worker's
  ExecutorQueue::Taken taken_;                // likewise
  const Command* running_command_ = nullptr;  // likewise
  std::thread worker_;
};

}  // namespace specdec
