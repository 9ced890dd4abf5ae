#include "engine/request_handle.h"

#include <utility>

#include "engine/executor.h"

namespace specdec {

RequestHandle::RequestHandle(std::shared_ptr<Text> text, std::shared_ptr<ExecutorCommands> commands)
    : text_(std::move(text)), commands_(std::move(commands)), seed_(text_->seed()), verification_(text_->verification()) {
  stats_ = text_->sequence().stats;
}

bool RequestHandle::wait_for(std::size_t index, std::chrono::milliseconds timeout) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return is_done_ || index < pieces_.size(); });
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

void RequestHandle::cancel() {
  if (!is_done()) commands_->cancel(shared_from_this());
}

void RequestHandle::set_listener(std::function<void()> listener) {
  auto shared = std::make_shared<const std::function<void()>>(std::move(listener));
  std::unique_lock<std::mutex> lock(mutex_);
  listener_ = std::move(shared);
  if (is_done_ || !pieces_.empty()) tell(std::move(lock));
}

void RequestHandle::add(const Piece& piece, const Stats& stats) {
  std::unique_lock<std::mutex> lock(mutex_);
  pieces_.push_back(piece);
  stats_ = stats;
  prompt_score_ = text_->prompt_score();
  if (piece.finish_reason) is_done_ = true;
  tell(std::move(lock));
}

void RequestHandle::end(std::exception_ptr error, const Stats& stats) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_done_) return;
  is_done_ = true;
  error_ = std::move(error);
  stats_ = stats;
  prompt_score_ = text_->prompt_score();
  tell(std::move(lock));
}

void RequestHandle::tell(std::unique_lock<std::mutex> lock) {
  const std::shared_ptr<const std::function<void()>> listener = listener_;
  lock.unlock();
  changed_.notify_all();
  if (listener && *listener) (*listener)();
}

}  // namespace specdec
