// Continuous batching. Requests wait for one of a fixed number of slots (places in the caches), read their prompts one
// after another, and then generate together, with one target pass per cycle for all. Each leaves its slot when it is
// finished.
//
// The output of a request does not depend on the others: models compute the same bits for any batch, and every request
// has its own random numbers. `ScheduledRequest` is the state of one request, `SlotLedger` knows what the slots cache.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/prefix_store.h"
#include "engine/scheduled_request.h"
#include "engine/slot_choice.h"
#include "engine/slot_ledger.h"
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
  // Runs the models as needed and returns the next event; nullopt when no request is left. Whatever a request's own
  // work throws ends only that request, and what a pass throws ends the requests in it. A prefix that cannot be copied
  // or restored is read. Throws only Cancelled; all requests can continue afterwards.
  std::optional<Event> next();
  // The two halves of next(). take_event() returns an event that is ready. step() runs the models once: one cycle of
  // all requests and at most max_prompt_tokens of prompts (fewer while other requests generate). step() returns false
  // if nothing is left to do, and throws what next() throws.
  std::optional<Event> take_event();
  bool step(int max_prompt_tokens);
  // The request whose prompt is being read; null: none.
  const ScheduledRequest* reading() const;
  // How many of the request's tokens are in the target's cache. The request must have a slot.
  int num_cached(const ScheduledRequest& request) const { return ledger_.length(request.sequence().slot); }
  bool is_idle() const;  // no request waits, runs or has an event

  // Ends a request. Its slot becomes free; the caches keep the delivered tokens.
  void cancel(std::int64_t id) noexcept;
  void cancel_all() noexcept;

  // The tokens of a prompt that a pass reads now: to be asked while models run, on the thread that runs them.
  struct PromptPass {
    const ScheduledRequest* request;  // null: no pass over a prompt is running
    int begin, end;
  };
  const PromptPass& prompt_pass() const { return prompt_pass_; }
  // Likewise: ends the request when this pass is over or interrupted. The caches keep what was read.
  void abandon_prompt() { is_abandoned_ = true; }

  // Whether the slot still caches this request, which may have ended.
  bool is_cached(const ScheduledRequest& request) const { return ledger_.holds(request.sequence().slot, request); }
  // Gives a free slot (the wanted one) to a request that ends immediately. `fill` fills the caches of this place with
  // the request's tokens; if it returns false or throws, the slot is empty. Returns false if no slot is free.
  bool adopt(const std::shared_ptr<ScheduledRequest>& request, const std::function<bool(int place)>& fill);
  // The request that runs in a slot or was the last to run there; null: none.
  const ScheduledRequest* in_slot(int slot) const { return ledger_.holder(ledger_.place_of(slot)).get(); }
  // Empties the caches of an idle slot. Returns the number of tokens that it had cached.
  int erase(int slot);

  // The means to exchange the caches of two slots; must outlive the scheduler. Null: slots cannot exchange caches, and
  // one of the two is lost.
  void set_slot_states(SlotStates* states) { states_ = states; }
  // Keeps what a slot caches before it is overwritten; must outlive the scheduler. Null: nothing is kept.
  void set_prefix_store(PrefixStore* store) { store_ = store; }
  // While no request runs: lets the store keep what slots cache. Returns false if it must be called again later.
  bool keep_idle_prefixes();

  int num_slots() const { return ledger_.size(); }

  // false: outputs of requests that finish after this call are not proposed to later ones, so that measurements do not
  // depend on their order.
  void set_remembers_outputs(bool remembers) { remembers_outputs_ = remembers; }

 private:
  // Each request is in one of three of them, and moves without an allocation.
  using Requests = std::list<std::shared_ptr<ScheduledRequest>>;

  bool begin_next_request();
  int stored_prefix(const ScheduledRequest& request) noexcept;
  bool give_slot(const std::shared_ptr<ScheduledRequest>& request);
  bool can_begin(const ScheduledRequest& request) const;
  std::optional<SlotChoice::Chosen> choose_slot(const ScheduledRequest& request, int stored);
  void keep_what_is_lost(int place, int num_kept);
  bool any_is(ScheduledRequest::State state) const;
  bool read_prompts(int max_tokens);
  int read_prompt(ScheduledRequest& request, int max_tokens);
  void cycle();
  void run_cycle();
  void close_gaps();
  std::optional<int> empty_place() const;
  std::optional<PrefixFile> saved(int place) noexcept;
  void put_back(int place, const PrefixFile& prefix, SlotLedger::Holder request);
  void finish(ScheduledRequest& request) noexcept;
  void end_without_piece(ScheduledRequest& request) noexcept;
  Requests::iterator begun(const ScheduledRequest& request) noexcept;

  Decoder& decoder_;
  Vocabulary vocabulary_;
  Requests waiting_, begun_;
  Requests ended_;  // without a last piece, not reported yet
  SlotLedger ledger_;
  SlotChoice slot_choice_;
  SlotStates* states_ = nullptr;
  PrefixStore* store_ = nullptr;
  bool remembers_outputs_ = true;
  PromptPass prompt_pass_{};
  bool is_abandoned_ = false;
  int next_place_ = 0;  // the slot whose pieces are delivered next
  std::vector<Sequence*> running_, group_;
};

}  // namespace specdec
