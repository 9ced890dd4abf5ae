#include "engine/request_handle.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "engine/executor.h"

namespace specdec {
namespace {

constexpr std::chrono::milliseconds poll_interval{20};
constexpr int reserved_pieces = 256;  // longer outputs allocate now and then

}  // namespace

RequestHandle::RequestHandle(std::shared_ptr<ScheduledRequest> request, std::shared_ptr<ExecutorQueue> queue)
    : request_(std::move(request)),
      queue_(std::move(queue)),
      id_(request_->id()),
      seed_(request_->seed()),
      verification_(request_->verification()),
      is_repeatable_(request_->is_repeatable()),
      num_pictures_(static_cast<int>(request_->sequence().pictures.size())) {
  stats_ = request_->sequence().stats;
  pieces_.reserve(idx(std::min(request_->sequence().remaining, reserved_pieces)));
}

bool RequestHandle::wait_for(std::size_t index, std::chrono::milliseconds timeout) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return is_done_ || index < pieces_.size(); });
}

bool RequestHandle::wait_for_end(std::chrono::milliseconds timeout) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return is_done_; });
}

std::optional<Piece> RequestHandle::piece(std::size_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return index < pieces_.size() ? std::optional<Piece>(pieces_[index]) : std::nullopt;
}

bool RequestHandle::is_done() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_done_;
}

std::exception_ptr RequestHandle::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

Stats RequestHandle::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

PromptProgress RequestHandle::prompt_progress() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_read = !pieces_.empty() || (is_done_ && !error_);
  return {is_read ? stats_.prompt_tokens : prompt_read_,
          stats_.prompt_tokens,
          stats_.prompt_cached_tokens,
          num_pictures_,
          stats_.prompt_seconds,
          slot_};
}

void RequestHandle::set_prompt_progress(std::int64_t num_read, const Stats& stats) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  prompt_read_ = num_read;
  stats_ = stats;
  slot_ = request_->slot();
  notify(std::move(lock));
}

std::string RequestHandle::drafting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return drafting_;
}

void RequestHandle::set_drafting(std::string drafting) {
  const std::lock_guard<std::mutex> lock(mutex_);
  drafting_ = std::move(drafting);
}

std::shared_ptr<const Score> RequestHandle::prompt_score() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return prompt_score_;
}

void RequestHandle::cancel() noexcept {
  if (is_cancelled_.exchange(true)) return;
  queue_->wake_for_cancellation();
}

bool RequestHandle::is_in_its_process() const { return queue_->is_in_its_process(); }

void RequestHandle::set_listener(std::function<void()> listener) {
  auto shared = std::make_shared<const std::function<void()>>(std::move(listener));
  std::unique_lock<std::mutex> lock(mutex_);
  listener_ = std::move(shared);
  if (is_done_ || !pieces_.empty()) notify(std::move(lock));
}

void RequestHandle::add(Piece piece, const Stats& stats) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool is_last = piece.finish_reason.has_value();
  pieces_.push_back(std::move(piece));
  stats_ = stats;
  slot_ = request_->slot();
  prompt_score_ = request_->prompt_score();
  if (is_last) is_done_ = true;
  notify(std::move(lock));
}

void RequestHandle::end(std::exception_ptr error, const Stats& stats) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_done_) return;
  is_done_ = true;
  error_ = std::move(error);
  stats_ = stats;
  slot_ = request_->slot();
  prompt_score_ = request_->prompt_score();
  notify(std::move(lock));
}

void RequestHandle::end_unbegun(const std::exception_ptr& error) noexcept {
  queue_->finish_request();
  end(error, request_->sequence().stats);
}

void RequestHandle::notify(std::unique_lock<std::mutex> lock) noexcept {
  const std::shared_ptr<const std::function<void()>> listener = listener_;
  const bool is_end = is_done_;
  lock.unlock();
  changed_.notify_all();
  if (is_end) ended_.notify_all();
  if (!listener || !*listener) return;
  try {
    (*listener)();
  } catch (...) {  // it must not throw; the models' thread goes on
  }
}

std::optional<Piece> PieceReader::next() {
  while (!handle_->wait_for(index_, poll_interval)) {
    if (poll_) poll_();
  }
  if (std::optional<Piece> piece = handle_->piece(index_)) {
    ++index_;
    return piece;
  }
  if (handle_->error()) std::rethrow_exception(handle_->error());
  return std::nullopt;
}

}  // namespace specdec
