// A submitted request as its users see it, on any thread: its pieces so far and how it ended.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduled_request.h"

namespace specdec {

class ExecutorQueue;

// How much of a prompt is read, in tokens; cached tokens count as read.
struct PromptProgress {
  std::int64_t read = 0, all = 0;
  std::int64_t cached = 0;
  int pictures = 0;      // in the prompt; encoding one takes seconds, in which `read` stands still
  double seconds = 0.0;  // of reading, so far
  int slot = -1;         // see Request::slot; -1: the request waits for a slot
};

class RequestHandle {
 public:
  // Executor::submit makes these.
  RequestHandle(std::shared_ptr<ScheduledRequest> request, std::shared_ptr<ExecutorQueue> queue);

  std::int64_t id() const { return id_; }
  std::uint64_t seed() const { return seed_; }
  Verification verification() const { return verification_; }
  // Whether the same request with seed() and verification() gives the same output (ScheduledRequest::is_repeatable).
  bool is_repeatable() const { return is_repeatable_; }

  // Waits until piece `index` is there or the request has ended. Returns false if neither has happened after `timeout`.
  bool wait_for(std::size_t index, std::chrono::milliseconds timeout) const;
  // Waits only for the end: pieces do not wake the caller.
  bool wait_for_end(std::chrono::milliseconds timeout) const;
  // Nullopt if the piece is not there yet or the request ended before it. Pieces stay available as long as the handle.
  std::optional<Piece> piece(std::size_t index) const;

  bool is_done() const;
  std::exception_ptr error() const;  // what ended it early, Cancelled after cancel(); null: nothing (so far)
  Stats stats() const;               // so far
  PromptProgress prompt_progress() const;
  // at the end: whether drafts were used, and if not, why (drafting_report.h); empty before
  std::string drafting() const;
  // Available for Request::score_prompt, from the first piece on, or from the end of a request without pieces;
  // otherwise null.
  std::shared_ptr<const Score> prompt_score() const;

  // Asks the executor to end the request, without waiting. Does nothing if it has ended. Allocates nothing.
  void cancel() noexcept;

  // Called after every new piece and at the end, on the executor's thread: it must return soon and throw nothing.
  // Called at once, on this thread, if there are pieces already or the request has ended.
  void set_listener(std::function<void()> listener);

  bool is_in_its_process() const;  // false: in a forked process, where it never ends

  // Only for commands that run on the executor's thread (Executor::run).
  const std::shared_ptr<ScheduledRequest>& request() const { return request_; }

 private:
  friend class Executor;
  friend class ExecutorQueue;
  friend class OwnedSubmission;

  void add(Piece piece, const Stats& stats);
  void end(std::exception_ptr error, const Stats& stats) noexcept;  // allocates nothing
  void end_unbegun(const std::exception_ptr& error) noexcept;       // the executor did not take it
  void set_drafting(std::string drafting);
  void set_prompt_progress(std::int64_t num_read, const Stats& stats) noexcept;
  bool is_cancelled() const { return is_cancelled_; }
  void notify(std::unique_lock<std::mutex> lock) noexcept;

  const std::shared_ptr<ScheduledRequest> request_;  // only the executor's thread uses it
  const std::shared_ptr<ExecutorQueue> queue_;
  const std::int64_t id_;
  const std::uint64_t seed_;
  const Verification verification_;
  const bool is_repeatable_;
  const int num_pictures_;  // of the prompt
  std::atomic<bool> is_cancelled_{false};

  mutable std::mutex mutex_;  // of the members below
  mutable std::condition_variable changed_, ended_;
  std::vector<Piece> pieces_;
  bool is_done_ = false;
  std::exception_ptr error_;
  Stats stats_;
  std::int64_t prompt_read_ = 0;
  int slot_ = -1;
  std::string drafting_;
  std::shared_ptr<const Score> prompt_score_;
  std::shared_ptr<const std::function<void()>> listener_;
};

// Reads the pieces of a request in order, waiting for each.
class PieceReader {
 public:
  // poll: called about every 20 ms while a piece is awaited; what it throws passes through next(). Null: nothing.
  explicit PieceReader(std::shared_ptr<RequestHandle> handle, std::function<void()> poll = {})
      : handle_(std::move(handle)), poll_(std::move(poll)) {}

  // Nullopt after the last piece. Throws what ended the request early.
  std::optional<Piece> next();
  const RequestHandle& handle() const { return *handle_; }

 private:
  std::shared_ptr<RequestHandle> handle_;
  std::function<void()> poll_;
  std::size_t index_ = 0;
};

}  // namespace specdec
