// Continuous batching. Requests wait for one of a fixed number of slots (places in the caches), read their prompts one
// after another, and then generate together, with one target pass per cycle for all. Each leaves its slot when it is
// finished.
//
// The output of a request does not depend on the others: models compute the same bits for any batch, and every request
// has its own random numbers. `ScheduledRequest` is the state of one request.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/prefix_store.h"
#include "engine/scheduled_request.h"
#include "engine/slot_choice.h"
#include "engine/slot_states.h"
#include "speculative/decoder.h"

namespace specdec {

// A piece of a request's output, or its end without a piece: after an error, or because max_tokens is 0.
struct Event {
  std::shared_ptr<const ScheduledRequest> request;
  std::optional<Piece> piece;
  bool is_last() const { return !piece || piece->finish_reason.has_value(); }
};

class Scheduler {
 public:
  Scheduler(Decoder& decoder, Vocabulary vocabulary, int num_slots);

  void add(std::shared_ptr<ScheduledRequest> request);
  // Runs the models as needed and returns the next event; nullopt when no request is left. An error of one request ends
  // only that request. Throws Cancelled; all requests can continue afterwards.
  std::optional<Event> next();
  // The two halves of next(). take_event() returns an event that is ready. step() runs the models once: one cycle of
  // all requests and at most max_prompt_tokens of prompts (fewer while other requests generate). step() returns false
  // if nothing is left to do, and throws what next() throws.
  std::optional<Event> take_event();
  bool step(int max_prompt_tokens);
  // The request whose prompt is being read; null: none.
  const ScheduledRequest* reading() const;
  // How many of the request's tokens are in the target's cache. The request must have a slot.
  int num_cached(const ScheduledRequest& request) const { return decoder_.num_cached(request.sequence().slot); }
  bool is_idle() const;  // no request waits, runs or has an event

  // Ends a request. Its slot becomes free; the caches keep the delivered tokens.
  void cancel(std::int64_t id);
  void cancel_all();

  // Whether the slot still caches this request, which may have ended.
  bool is_cached(const ScheduledRequest& request) const;
  // Empties a free slot (the wanted one) and gives it to a request that ends immediately, so that the caller can fill
  // the slot's caches with the request's tokens. Returns the place; -1: none is free.
  int adopt(std::shared_ptr<ScheduledRequest> request);
  // The request that runs in a slot or was the last to run there; null: none.
  const ScheduledRequest* in_slot(int slot) const { return slots_[place_of(slot)].get(); }
  // Empties the caches of an idle slot. Returns the number of tokens that it had cached.
  int erase(int slot);

  // The means to exchange the caches of two slots; must outlive the scheduler. Null: slots cannot exchange caches, and
  // one of the two is lost.
  void set_slot_states(SlotStates* states) { states_ = states; }
  // Keeps what a slot caches before it is overwritten; must outlive the scheduler. Null: nothing is kept.
  void set_prefix_store(PrefixStore* store) { store_ = store; }
  // While no request runs: lets the store keep what slots cache. Returns false if it must be called again later.
  bool keep_idle_prefixes();

  int num_slots() const { return static_cast<int>(slots_.size()); }

  // false: outputs of requests that finish after this call are not proposed to later ones, so that measurements do not
  // depend on their order.
  void set_remembers_outputs(bool remembers) { remembers_outputs_ = remembers; }

 private:
  void begin_next_request();
  bool can_begin(const ScheduledRequest& request) const;
  std::size_t place_of(int slot) const;
  std::optional<SlotChoice::Chosen> choose_slot(const ScheduledRequest& request, int stored);
  void keep_what_is_lost(std::size_t slot, int num_kept);
  int num_cached(std::size_t slot) const;
  bool any_is(ScheduledRequest::State state) const;
  bool read_prompts(int max_tokens);
  int read_prompt(ScheduledRequest& request, int max_tokens);
  void cycle();
  void run_cycle();
  void close_gaps();
  std::optional<std::size_t> empty_slot() const;
  void move(std::size_t from, std::size_t to);
  std::optional<PrefixFile> saved(std::size_t slot) noexcept;
  void put_back(std::size_t slot, const PrefixFile& prefix, std::shared_ptr<ScheduledRequest> request) noexcept;
  void finish(ScheduledRequest& request);
  void fail(ScheduledRequest& request, std::exception_ptr error);
  void end_without_piece(ScheduledRequest& request);

  Decoder& decoder_;
  Vocabulary vocabulary_;
  std::deque<std::shared_ptr<ScheduledRequest>> waiting_;
  std::vector<std::shared_ptr<ScheduledRequest>>
      slots_;                 // the running request, or the last one, whose tokens are still cached; or null
  std::vector<int> numbers_;  // slot numbers by place: a cached sequence keeps its number when it moves
  SlotChoice slot_choice_;
  SlotStates* states_ = nullptr;
  PrefixStore* store_ = nullptr;
  std::deque<std::shared_ptr<ScheduledRequest>> ended_;  // ended without a last piece, not reported yet
  bool remembers_outputs_ = true;
  std::size_t next_slot_ = 0;  // the slot whose pieces are delivered next
  std::vector<Sequence*> running_, group_;
};

}  // namespace specdec
