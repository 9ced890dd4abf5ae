// A request that an Executor runs, as its users see it, on any thread: the pieces so far and how it ended.
#pragma once

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

#include "engine/text.h"

namespace specdec {

class ExecutorCommands;

class RequestHandle : public std::enable_shared_from_this<RequestHandle> {
 public:
  // Executor::submit makes these.
  RequestHandle(std::shared_ptr<Text> text, std::shared_ptr<ExecutorCommands> commands);

  std::uint64_t seed() const { return seed_; }
  Verification verification() const { return verification_; }

  // Waits until piece `index` is there or the request has ended. Returns false if neither is so after `timeout`.
  bool wait_for(std::size_t index, std::chrono::milliseconds timeout) const;
  // Nullopt: not there yet, or the request ended before it. Pieces stay available as long as the handle.
  std::optional<Piece> piece(std::size_t index) const;

  bool is_done() const;
  std::exception_ptr error() const;  // what ended it early, Cancelled after cancel(); null: nothing (so far)
  Stats stats() const;               // so far
  std::string drafting() const;      // at the end: whether drafts were used, and if not why (drafting_report.h); empty before
  // For Request::score_prompt: from the first piece on, or the end of a request without pieces; null before, and otherwise.
  std::shared_ptr<const Score> prompt_score() const;

  // Asks the executor to end the request, without waiting for that. Does nothing if it has ended.
  void cancel();

  // Called after every new piece and at the end, on the executor's thread: it must return soon and throw nothing. Called at once,
  // on this thread, if there are pieces already or the request has ended.
  void set_listener(std::function<void()> listener);

 private:
  friend class Executor;

  void add(const Piece& piece, const Stats& stats);
  void end(std::exception_ptr error, const Stats& stats);  // allocates nothing
  void set_drafting(std::string drafting);
  void tell(std::unique_lock<std::mutex> lock);

  const std::shared_ptr<Text> text_;  // the executor's thread alone uses it
  const std::shared_ptr<ExecutorCommands> commands_;
  const std::uint64_t seed_;
  const Verification verification_;

  mutable std::mutex mutex_;  // of the members below
  mutable std::condition_variable changed_;
  std::vector<Piece> pieces_;
  bool is_done_ = false;
  std::exception_ptr error_;
  Stats stats_;
  std::string drafting_;
  std::shared_ptr<const Score> prompt_score_;
  std::shared_ptr<const std::function<void()>> listener_;
};

}  // namespace specdec
