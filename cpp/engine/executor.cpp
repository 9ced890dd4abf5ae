#include "engine/executor.h"

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "platform/process.h"

namespace specdec {
namespace {

constexpr std::chrono::milliseconds keeping_interval(20);  // between two looks at whether the next prefix can be kept

}  // namespace

ExecutorQueue::ExecutorQueue(std::size_t max_unfinished)
    : max_unfinished_(max_unfinished),
      closing_error_(std::make_exception_ptr(Cancelled("the Generator was closed"))),
      process_(process_id()) {}

bool ExecutorQueue::is_in_its_process() const { return process_id() == process_; }

void ExecutorQueue::submit(std::shared_ptr<RequestHandle> handle) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_) std::rethrow_exception(closing_error_);
    if (num_unfinished_ >= max_unfinished_) {
      throw QueueFull(std::to_string(num_unfinished_) +
                      " requests are running or waiting already; try again when some have ended");
    }
    waiting_.submitted.push_back(std::move(handle));
    ++num_unfinished_;
  }
  arrived_.notify_one();
}

void ExecutorQueue::run(Command& command) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_closed_) std::rethrow_exception(closing_error_);
  waiting_.commands.push_back(&command);
  if (command.is_urgent) {
    is_urgent_ = true;
    has_urgent_command_ = true;
  }
  arrived_.notify_one();
  command_done_.wait(lock, [&] { return command.is_done; });
  if (command.error) std::rethrow_exception(command.error);
}

void ExecutorQueue::finish(Command& command, std::exception_ptr error) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    command.error = std::move(error);
    command.is_done = true;  // the command may be gone once the lock is released
  }
  command_done_.notify_all();
}

void ExecutorQueue::wake_for_cancellation() noexcept {
  if (!is_in_its_process()) return;  // another thread may have held the mutex when the process was forked
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.has_cancellations = true;
    is_urgent_ = true;
  }
  arrived_.notify_one();
}

void ExecutorQueue::close() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closed_ = true;
    is_urgent_ = true;
  }
  arrived_.notify_one();
}

void ExecutorQueue::take(std::chrono::milliseconds patience, Taken& taken) {
  taken.submitted.clear();
  taken.commands.clear();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_work = [this] {
    return is_closed_ || waiting_.has_cancellations || !waiting_.submitted.empty() || !waiting_.commands.empty();
  };
  if (patience.count() > 0) arrived_.wait_for(lock, patience, has_work);
  taken.submitted.swap(waiting_.submitted);
  taken.commands.swap(waiting_.commands);
  taken.has_cancellations = std::exchange(waiting_.has_cancellations, false);
  taken.is_closed = is_closed_;
  is_urgent_ = taken.is_closed;
  has_urgent_command_ = false;
}

void ExecutorQueue::finish_request() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --num_unfinished_;
}

std::size_t ExecutorQueue::num_unfinished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_unfinished_;
}

Executor::Executor(Scheduler& scheduler, const std::function<void(CancelCheck)>& set_cancel_check,
                   const Options& options)
    : scheduler_(scheduler),
      options_(options),
      queue_(std::make_shared<ExecutorQueue>(options.max_unfinished)),
      cancelled_error_(std::make_exception_ptr(Cancelled("the request was cancelled"))) {
  set_cancel_check([this] { return must_interrupt(); });
  try {
    worker_ = std::thread([this] { work(); });  // last: nothing may throw while it runs
  } catch (const std::system_error&) {
    throw Error(
        "cannot start the thread that runs the models: the system has a limit on threads; raise it (ulimit -u)");
  }
}

std::shared_ptr<RequestHandle> Executor::submit(std::shared_ptr<ScheduledRequest> request) {
  const auto handle = std::make_shared<RequestHandle>(std::move(request), queue_);
  // The caller holds this pointer; the worker holds the other one.
  std::shared_ptr<RequestHandle> reader(handle.get(), [handle](RequestHandle* dropped) noexcept { dropped->cancel(); });
  queue_->submit(handle);
  return reader;
}

void Executor::run(const std::function<void()>& work, const CancelCheck& cancelled) {
  ExecutorQueue::Command command{work, cancelled};
  queue_->run(command);
}

void Executor::cancel_all() noexcept {
  try {
    const std::function<void()> work = [this] { end_all(cancelled_error_); };
    const CancelCheck never;
    ExecutorQueue::Command command{work, never, true};
    queue_->run(command);
  } catch (...) {  // the queue is closed, or there is no memory for the command; the requests continue
  }
}

void Executor::close() noexcept {
  if (!worker_.joinable()) return;
  if (!is_in_its_process()) {
    worker_.detach();
    return;
  }
  queue_->close();
  worker_.join();
}

void Executor::work() {
  for (;;) {
    queue_->take(patience(), taken_);
    try {
      obey();
      if (taken_.is_closed) return keep_all();
      if (std::optional<Event> event = scheduler_.take_event()) {
        deliver(std::move(*event));
      } else {
        scheduler_.step(options_.max_prompt_tokens);
        report_progress();
      }
    } catch (const Cancelled&) {  // a pass was interrupted for a command, which is taken next
    } catch (...) {
      end_all(std::current_exception());
    }
  }
}

// How long to wait for the next command: not at all while requests run, without a limit when idle, shortly while
// prefixes are still to be kept.
std::chrono::milliseconds Executor::patience() const {
  if (!unfinished_.empty()) return {};
  return scheduler_.keep_idle_prefixes() ? std::chrono::hours(1) : keeping_interval;
}

void Executor::keep_all() const {
  while (!scheduler_.keep_idle_prefixes()) std::this_thread::sleep_for(keeping_interval);
}

void Executor::obey() {
  for (const auto& handle : taken_.submitted) begin(handle);
  if (taken_.has_cancellations) end_cancelled();
  for (ExecutorQueue::Command* command : taken_.commands) obey(*command);
  if (taken_.is_closed) end_all(queue_->closing_error());
}

void Executor::end_cancelled() {
  for (auto next = unfinished_.begin(); next != unfinished_.end();) {
    const auto request = next++;
    if (!request->second->is_cancelled()) continue;
    scheduler_.cancel(request->first);
    end(request, cancelled_error_);
  }
}

// Errors are passed to the thread that waits for the command.
void Executor::obey(ExecutorQueue::Command& command) {
  std::exception_ptr error = taken_.is_closed ? queue_->closing_error() : nullptr;
  if (!error) {
    running_command_ = &command;
    try {
      command.work();
    } catch (...) {
      error = std::current_exception();
    }
    running_command_ = nullptr;
  }
  queue_->finish(command, std::move(error));
}

// Afterwards the request is in `unfinished_` or has ended, also after an exception.
void Executor::begin(const std::shared_ptr<RequestHandle>& handle) {
  try {
    unfinished_.emplace(handle->id(), handle);
    scheduler_.add(handle->request());
    if (handle->is_cancelled()) taken_.has_cancellations = true;
  } catch (...) {
    unfinished_.erase(handle->id());
    queue_->finish_request();
    handle->end(std::current_exception(), handle->request()->sequence().stats);
  }
}

void Executor::deliver(Event event) {
  const auto request = unfinished_.find(event.request->id());
  if (request == unfinished_.end()) return;
  const std::shared_ptr<RequestHandle> handle = request->second;
  const Stats& stats = event.request->sequence().stats;
  if (event.is_last()) {
    forget(request);
    report_drafting(*handle);
  }
  if (!event.piece) return handle->end(event.request->error(), stats);
  try {
    handle->add(std::move(*event.piece), stats);
  } catch (...) {
    handle->end(std::current_exception(), stats);
    throw;
  }
}

void Executor::report_progress() {
  const ScheduledRequest* const request = scheduler_.reading();
  if (request == nullptr) return;
  const auto found = unfinished_.find(request->id());
  if (found != unfinished_.end())
    found->second->set_prompt_progress(scheduler_.num_cached(*request), request->sequence().stats);
}

// Call this before the handle reports the end: whoever sees the end may submit the next request.
void Executor::forget(Unfinished::iterator request) {
  unfinished_.erase(request);
  queue_->finish_request();
}

void Executor::end(Unfinished::iterator request, std::exception_ptr error) {
  const std::shared_ptr<RequestHandle> handle = request->second;
  forget(request);
  report_drafting(*handle);
  handle->end(std::move(error), handle->request()->sequence().stats);
}

void Executor::report_drafting(RequestHandle& handle) const {
  if (!options_.drafting) return;
  try {
    handle.set_drafting(options_.drafting(*handle.request()));
  } catch (const std::bad_alloc&) {  // the text matters more than the report about its drafts
  }
}

// An error of the worker ends all requests. If the models cannot be brought back to a known state, no more requests are
// accepted.
void Executor::end_all(const std::exception_ptr& error) {
  try {
    scheduler_.cancel_all();
  } catch (...) {
    queue_->close();
  }
  while (!unfinished_.empty()) end(unfinished_.begin(), error);
}

// A cancellation interrupts a pass only if no other request loses work: while the cancelled request's prompt is read,
// or if all requests of the pass are cancelled. Other cancellations take effect after the pass.
bool Executor::must_interrupt() const {
  if (running_command_ != nullptr && running_command_->cancelled && running_command_->cancelled()) return true;
  if (!queue_->is_urgent()) return false;
  if (queue_->is_closed() || queue_->has_urgent_command()) return true;
  bool any = false, all = true;
  for (const auto& [id, handle] : unfinished_) {
    const ScheduledRequest& request = *handle->request();
    if (!request.has_slot()) continue;
    if (!handle->is_cancelled()) {
      all = false;
      continue;
    }
    if (request.state() == ScheduledRequest::State::reading) return true;
    any = true;
  }
  return any && all;
}

}  // namespace specdec
