// Runs the requests that one HTTP request makes (choices of one prompt, several prompts) and hands out their pieces.
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
  // Queues them. Once the client has left they are cancelled, wherever they are. Throws as Service does.
  Generation(Service& service, const std::vector<Request>& requests, Client client);
  ~Generation();  // cancels those that run
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  std::size_t num_choices() const { return choices_.size(); }

  // Keeps the stream alive while next() waits: for a slot, for a long prompt, for a slow model.
  void keep_alive(EventStream& events) { events_ = &events; }
  // Called by next() with each choice's progress, from its slot on until its first piece.
  using OnProgress = std::function<void(std::size_t choice, const PromptProgress& progress)>;
  void report_progress(OnProgress on_progress) { on_progress_ = std::move(on_progress); }

  // The next piece of any of them; nullopt once all have ended. Throws ClientGone, ApiError when the time is over, and
  // what ended one of them early.
  struct Item {
    std::size_t choice;
    Piece piece;
  };
  std::optional<Item> next();

  // Ends a choice: what it generates further is not wanted.
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
    std::int64_t num_read = -1;  // of the prompt's tokens, as reported last; -1: nothing yet
    bool is_over = false;
  };

  std::optional<Piece> take(Choice& choice);
  void report(std::size_t choice);
  void end(Choice& choice, bool is_cancelled);

  Service& service_;
  const Client client_;
  const Deadline deadline_;
  const std::shared_ptr<Arrivals> arrivals_;
  std::vector<Choice> choices_;
  EventStream* events_ = nullptr;  // null: nothing is kept alive
  OnProgress on_progress_;         // null: nobody is told
  std::size_t turn_ = 0;           // the choice whose piece is taken next, if it has one
};

// Requests for `count` answers to `request`. With a seed, each has its own, the first one that seed.
std::vector<Request> choices_of(const Request& request, int count);

struct Answer {
  std::string text;
  std::vector<Piece> pieces;
  std::optional<FinishReason> finish_reason;  // none: max_tokens is 0
  Stats stats;

  void add(Piece piece);
};

// The stop string that ended an answer to `request`; nullopt: something else did.
std::optional<std::string> stop_string(const Generator& generator, const Request& request, const Answer& answer);

// All pieces of all choices.
std::vector<Answer> collect(Generation& generation);

}  // namespace specdec::server
