#include "engine/executor.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"

namespace specdec {
namespace {

constexpr std::chrono::milliseconds keeping_interval(20);  // between two looks at whether the next prefix can be kept

}  // namespace

void ExecutorCommands::submit(std::shared_ptr<RequestHandle> handle) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_because_) std::rethrow_exception(closed_because_);
    if (num_unfinished_ >= max_unfinished_) {
      throw QueueFull(std::to_string(num_unfinished_) + " requests run or wait already; try again when some have ended");
    }
    waiting_.submitted.push_back(std::move(handle));
    ++num_unfinished_;
  }
  arrived_.notify_one();
}

void ExecutorCommands::cancel(std::shared_ptr<RequestHandle> handle) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_because_) return;
    waiting_.cancelled.push_back(std::move(handle));
    is_urgent_ = true;
  }
  arrived_.notify_one();
}

void ExecutorCommands::close(std::exception_ptr reason) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_because_) closed_because_ = std::move(reason);
    is_urgent_ = true;
  }
  arrived_.notify_one();
}

void ExecutorCommands::take(std::chrono::milliseconds patience, Taken& taken) {
  taken.submitted.clear();
  taken.cancelled.clear();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto any = [this] { return closed_because_ || !waiting_.submitted.empty() || !waiting_.cancelled.empty(); };
  if (patience.count() > 0) arrived_.wait_for(lock, patience, any);
  taken.submitted.swap(waiting_.submitted);
  taken.cancelled.swap(waiting_.cancelled);
  taken.closed = closed_because_ != nullptr;
  is_urgent_ = taken.closed;
}

void ExecutorCommands::finished() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --num_unfinished_;
}

std::size_t ExecutorCommands::num_unfinished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_unfinished_;
}

bool ExecutorCommands::is_closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_because_ != nullptr;
}

bool ExecutorCommands::any_cancelled(const std::function<bool(const RequestHandle&)>& predicate) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(waiting_.cancelled.begin(), waiting_.cancelled.end(), [&](const auto& handle) { return predicate(*handle); });
}

Executor::Executor(Scheduler& scheduler, std::function<void(CancelCheck)> set_cancel_check, const Options& options)
    : scheduler_(scheduler),
      set_cancel_check_(std::move(set_cancel_check)),
      options_(options),
      commands_(std::make_shared<ExecutorCommands>(options.max_unfinished)) {
  worker_ = std::thread([this] { work(); });  // may throw; it runs no model before the first request
  set_cancel_check_([this] { return must_interrupt(); });
}

std::shared_ptr<RequestHandle> Executor::submit(std::shared_ptr<Text> text) {
  auto handle = std::make_shared<RequestHandle>(std::move(text), commands_);
  commands_->submit(handle);
  return handle;
}

void Executor::close() {
  if (!worker_.joinable()) return;
  commands_->close(std::make_exception_ptr(Cancelled("the Generator was closed")));
  worker_.join();
  set_cancel_check_({});
}

void Executor::work() {
  for (;;) {
    commands_->take(patience(), taken_);
    try {
      run();
      if (taken_.closed) return keep_all();
      if (const std::optional<Event> event = scheduler_.take_event()) deliver(*event);
      else scheduler_.step(options_.max_prompt_tokens);
    } catch (const Cancelled&) {  // a pass was interrupted for a command, which is taken next
    } catch (...) {
      end_all(std::current_exception());
    }
  }
}

// For the next command: none while requests run; otherwise any time, unless what is cached is still to be kept.
std::chrono::milliseconds Executor::patience() const {
  if (!unfinished_.empty()) return {};
  return scheduler_.keep_idle_prefixes() ? std::chrono::hours(1) : keeping_interval;
}

void Executor::keep_all() const {
  while (!scheduler_.keep_idle_prefixes()) std::this_thread::sleep_for(keeping_interval);
}

void Executor::run() {
  for (const auto& handle : taken_.submitted) begin(handle);
  if (taken_.closed) return end_all(std::make_exception_ptr(Cancelled("the Generator was closed")));
  for (const auto& handle : taken_.cancelled) {
    const auto request = unfinished_.find(handle->text_->id());
    if (request == unfinished_.end()) continue;
    scheduler_.cancel(request->first);
    end(request, std::make_exception_ptr(Cancelled("the request was cancelled")));
  }
}

// Whatever happens, the request is unfinished afterwards or has ended.
void Executor::begin(const std::shared_ptr<RequestHandle>& handle) {
  try {
    unfinished_.emplace(handle->text_->id(), handle);
    scheduler_.add(handle->text_);
  } catch (...) {
    unfinished_.erase(handle->text_->id());
    commands_->finished();
    handle->end(std::current_exception(), handle->text_->sequence().stats);
  }
}

void Executor::deliver(const Event& event) {
  const auto request = unfinished_.find(event.text->id());
  if (request == unfinished_.end()) return;
  const std::shared_ptr<RequestHandle> handle = request->second;
  const Stats& stats = event.text->sequence().stats;
  if (event.is_last()) forget(request), report_drafting(*handle);
  if (!event.piece) return handle->end(event.text->error(), stats);
  try {
    handle->add(*event.piece, stats);
  } catch (...) {
    handle->end(std::current_exception(), stats);
    throw;
  }
}

// Before the handle says that it is done: whoever sees that may submit the next request.
void Executor::forget(Unfinished::iterator request) {
  unfinished_.erase(request);
  commands_->finished();
}

void Executor::end(Unfinished::iterator request, std::exception_ptr error) {
  const std::shared_ptr<RequestHandle> handle = request->second;
  forget(request);
  report_drafting(*handle);
  handle->end(std::move(error), handle->text_->sequence().stats);
}

void Executor::report_drafting(RequestHandle& handle) const {
  if (!options_.drafting) return;
  try {
    handle.set_drafting(options_.drafting(*handle.text_));
  } catch (const std::bad_alloc&) {  // the text is worth more than what is said about its drafts
  }
}

// The worker's error is everyone's. If the models cannot even be brought back to a known state, no more requests are accepted.
void Executor::end_all(const std::exception_ptr& error) {
  try {
    scheduler_.cancel_all();
  } catch (...) {
    commands_->close(std::current_exception());
  }
  while (!unfinished_.empty()) end(unfinished_.begin(), error);
}

// Of the cancellations only that of a request whose prompt is being read is worth an interruption: nobody else's work is lost. The
// others take effect after the current pass.
bool Executor::must_interrupt() const {
  if (!commands_->is_urgent()) return false;
  const auto reads = [](const RequestHandle& handle) { return handle.text_->state() == Text::State::reading; };
  return commands_->is_closed() || commands_->any_cancelled(reads);
}

}  // namespace specdec
