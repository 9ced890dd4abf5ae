// Runs the engine requests of one HTTP request (choices of one prompt, several prompts) and returns their pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/arrivals.h"
#include "engine/request_handle.h"
#include "server/deadline.h"
#include "server/event_stream.h"
#include "server/service.h"

namespace specdec::server {

class Generation {
 public:
  // Queues the requests. They are cancelled once the client has left. Throws what Service::submit throws.
  Generation(Service& service, const std::vector<Request>& requests, Client client);
  ~Generation();  // cancels those that still run
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  std::size_t num_choices() const { return choices_.size(); }

  // Keeps the stream alive while next() waits: for a slot, for a long prompt, for a slow model.
  void keep_alive(EventStream& events) { events_ = &events; }
  // Called by next() with each choice's progress, from getting a slot until its first piece.
  using OnProgress = std::function<void(std::size_t choice, const PromptProgress& progress)>;
  void report_progress(OnProgress on_progress) { on_progress_ = std::move(on_progress); }

  // The next piece of any request; nullopt once all have ended. Throws ClientGone, ApiError when the time is over, and
  // what ended a request early.
  struct Item {
    std::size_t choice;
    Piece piece;
  };
  std::optional<Item> next();

  // Ends a choice whose further text is not wanted.
  void finish(std::size_t choice);

  Stats stats(std::size_t choice) const { return choices_[choice].handle->stats(); }
  Stats all_stats() const;  // their sum
  // Scores of the prompt's tokens (Request::score_prompt); available once the choice has a piece or has ended.
  std::shared_ptr<const Score> prompt_score(std::size_t choice) const {
    return choices_[choice].handle->prompt_score();
  }
  int slot(std::size_t choice) const { return choices_[choice].handle->prompt_progress().slot; }
  std::uint64_t seed(std::size_t choice) const { return choices_[choice].handle->seed(); }

 private:
  struct Choice {
    std::shared_ptr<RequestHandle> handle;
    std::size_t num_taken = 0;   // pieces
    std::int64_t num_read = -1;  // prompt tokens read, as last reported; -1: nothing reported yet
    bool is_over = false;
  };

  std::optional<Piece> take(Choice& choice);
  void report(std::size_t choice);
  [[noreturn]] void fail(const std::exception_ptr& error) const;
  void end(Choice& choice, bool is_cancelled);

  Service& service_;
  const Client client_;
  const Deadline deadline_;
  const std::shared_ptr<Arrivals> arrivals_;
  const std::string constraint_;  // the field that constrains the texts; empty: none
  std::vector<Choice> choices_;
  EventStream* events_ = nullptr;  // null: no stream is kept alive
  OnProgress on_progress_;         // null: no reports
  std::size_t turn_ = 0;           // the choice to take the next piece from, if it has one
};

// Requests for `count` answers to `request`. With a seed, each gets its own; the first keeps the given one.
std::vector<Request> choices_of(const Request& request, int count);

struct Answer {
  std::string text;
  std::vector<Piece> pieces;
  std::optional<FinishReason> finish_reason;  // none: max_tokens is 0
  Stats stats;

  void add(Piece piece);
};

// The stop string that ended an answer to `request`; nullopt if something else ended it.
std::optional<std::string> stop_string(const Generator& generator, const Request& request, const Answer& answer);

// All pieces of all choices.
std::vector<Answer> collect(Generation& generation);

}  // namespace specdec::server
