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

// Asked by llama.cpp, through which nothing may be thrown: a check that fails counts as a cancellation.
bool Command::is_cancelled() const noexcept {
  try {
    return cancelled_ && cancelled_();
  } catch (...) {
    return true;
  }
}

void Command::release(std::exception_ptr error) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  error_ = std::move(error);
  is_released_ = true;
  released_.notify_all();
}

void Command::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  released_.wait(lock, [this] { return is_released_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));  // nobody else destroys it while it is read
}

void OwnedCommand::run() noexcept {
  std::exception_ptr error;
  try {
    command_->work_();
  } catch (...) {
    error = std::current_exception();
  }
  fail(std::move(error));
}

void OwnedCommand::fail(std::exception_ptr error) noexcept {
  if (command_) std::exchange(command_, nullptr)->release(std::move(error));
}

ExecutorQueue::ExecutorQueue(std::size_t max_unfinished)
    : max_unfinished_(max_unfinished),
      closing_error_(std::make_exception_ptr(Cancelled("the Generator was closed"))),
      dropped_error_(std::make_exception_ptr(Error("the thread that runs the models failed; try again"))),
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
    waiting_.submitted.emplace_back(dropped_error_).put(std::move(handle));
    ++num_unfinished_;
  }
  arrived_.notify_one();
}

void ExecutorQueue::run(const std::function<void()>& work, const CancelCheck& cancelled, bool is_urgent) {
  const auto command = std::make_shared<Command>(work, cancelled, is_urgent);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_) std::rethrow_exception(closing_error_);
    waiting_.commands.emplace_back(command, dropped_error_);
    if (is_urgent) {
      is_urgent_ = true;
      has_urgent_command_ = true;
    }
  }
  arrived_.notify_one();
  command->wait();
}

std::shared_ptr<RequestHandle> ExecutorQueue::first_submitted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto first = std::find_if(waiting_.submitted.begin(), waiting_.submitted.end(),
                                  [](const OwnedSubmission& one) { return !one.get()->is_cancelled(); });
  return first == waiting_.submitted.end() ? nullptr : first->get();
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

void ExecutorQueue::finish_request() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  --num_unfinished_;
}

std::size_t ExecutorQueue::num_unfinished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_unfinished_;
}

void OwnedSubmission::fail(const std::exception_ptr& error) noexcept {
  if (handle_) std::exchange(handle_, nullptr)->end_unbegun(error);
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
  queue_->run(work, cancelled, false);
}

void Executor::cancel_all() noexcept {
  try {
    queue_->run([this] { end_all(cancelled_error_); }, {}, true);
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

void Executor::work() noexcept {
  for (bool is_open = true; is_open;) {
    try {
      is_open = turn();
    } catch (const Cancelled&) {  // a pass was interrupted for a command, which is taken next
    } catch (...) {
      end_all(std::current_exception());
    }
  }
}

// Returns false once the queue is closed.
bool Executor::turn() {
  queue_->take(patience(), taken_);
  obey();
  if (taken_.is_closed) {
    end_all(queue_->closing_error());
    keep_all();
    return false;
  }
  if (std::optional<Event> event = scheduler_.take_event()) {
    deliver(std::move(*event));
  } else {
    scheduler_.step(options_.max_prompt_tokens);
    report_progress();
  }
  return true;
}

// How long to wait for the next command: not at all while requests run, without a limit when idle, shortly while
// prefixes are still to be kept.
std::chrono::milliseconds Executor::patience() const {
  if (!unfinished_.empty() || !scheduler_.is_idle()) return {};
  return scheduler_.keep_idle_prefixes() ? std::chrono::hours(1) : keeping_interval;
}

void Executor::keep_all() const {
  while (!scheduler_.keep_idle_prefixes()) std::this_thread::sleep_for(keeping_interval);
}

void Executor::obey() {
  for (; !taken_.submitted.empty(); taken_.submitted.pop_front()) begin(std::move(taken_.submitted.front()));
  if (taken_.has_cancellations) end_cancelled();
  for (; !taken_.commands.empty(); taken_.commands.pop_front()) obey(taken_.commands.front());
}

void Executor::end_cancelled() {
  for (auto next = unfinished_.begin(); next != unfinished_.end();) {
    const auto request = next++;
    if (!request->second->is_cancelled()) continue;
    scheduler_.cancel(request->first);
    end(request, cancelled_error_);
  }
}

void Executor::obey(OwnedCommand& command) noexcept {
  if (taken_.is_closed) return command.fail(queue_->closing_error());
  running_command_ = &command.get();
  command.run();  // whoever waits may be gone afterwards
  running_command_ = nullptr;
}

// Afterwards the request is in `unfinished_` or has ended.
void Executor::begin(OwnedSubmission submission) noexcept {
  const std::shared_ptr<RequestHandle>& handle = submission.get();
  const std::int64_t id = handle->id();
  try {
    unfinished_.emplace(id, handle);
    scheduler_.add(handle->request());
    if (handle->is_cancelled()) taken_.has_cancellations = true;
    (void)submission.take();
  } catch (...) {
    unfinished_.erase(id);
    submission.fail(std::current_exception());
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
  } catch (...) {  // no memory for the piece
    if (event.is_last()) return handle->end(std::current_exception(), stats);
    scheduler_.cancel(event.request->id());
    end(request, std::current_exception());
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
void Executor::forget(Unfinished::iterator request) noexcept {
  unfinished_.erase(request);
  queue_->finish_request();
}

void Executor::end(Unfinished::iterator request, const std::exception_ptr& error) noexcept {
  const std::shared_ptr<RequestHandle> handle = request->second;
  forget(request);
  report_drafting(*handle);
  handle->end(error, handle->request()->sequence().stats);
}

void Executor::report_drafting(RequestHandle& handle) const noexcept {
  if (!options_.drafting) return;
  try {
    handle.set_drafting(options_.drafting(*handle.request()));
  } catch (...) {  // the text matters more than the report about its drafts
  }
}

// An error of the worker ends all requests.
void Executor::end_all(const std::exception_ptr& error) noexcept {
  scheduler_.cancel_all();
  while (!unfinished_.empty()) end(unfinished_.begin(), error);
}

// Asked while models run.
bool Executor::must_interrupt() {
  if (running_command_ != nullptr && running_command_->is_cancelled()) return true;
  if (!queue_->is_urgent()) return false;
  if (queue_->is_closed() || queue_->has_urgent_command()) return true;
  if (running_command_ != nullptr) return false;
  return scheduler_.prompt_pass().request != nullptr ? must_interrupt_prompt() : are_all_cancelled();
}

// A cancelled request has ended at once for its user, but the pass over its prompt goes on unless somebody needs the
// time for something else: it may well be asked for again, with an end that has changed.
bool Executor::must_interrupt_prompt() {
  const Scheduler::PromptPass& pass = scheduler_.prompt_pass();
  const auto found = unfinished_.find(pass.request->id());
  if (found != unfinished_.end()) {
    if (!found->second->is_cancelled()) return false;
    scheduler_.abandon_prompt();
    end(found, cancelled_error_);
  }
  return !is_worth_ending(pass);
}

// Whether the request that is next in line, if there is one, begins with half of the tokens that the pass reads. A
// short pass is not worth the question.
bool Executor::is_worth_ending(const Scheduler::PromptPass& pass) const {
  constexpr int short_pass = 128;
  const int num_tokens = pass.end - pass.begin;
  if (num_tokens <= short_pass) return true;
  const auto waits = [](const auto& entry) {
    return entry.second->request()->state() == ScheduledRequest::State::waiting && !entry.second->is_cancelled();
  };
  const auto waiting = std::find_if(unfinished_.begin(), unfinished_.end(), waits);
  const std::shared_ptr<RequestHandle> next =
      waiting != unfinished_.end() ? waiting->second : queue_->first_submitted();
  if (!next) return true;
  const int shared = common_prefix(next->request()->sequence(), pass.request->sequence(), pass.end);
  return 2 * (shared - pass.begin) >= num_tokens;
}

// A cancellation interrupts a cycle only if no other request loses work.
bool Executor::are_all_cancelled() const {
  bool any = false;
  for (const auto& [id, handle] : unfinished_) {
    if (handle->request()->state() != ScheduledRequest::State::running) continue;
    if (!handle->is_cancelled()) return false;
    any = true;
  }
  return any;
}

}  // namespace specdec
