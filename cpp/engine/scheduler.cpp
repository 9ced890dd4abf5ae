#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace specdec {
namespace {

constexpr int reading_chunk = 128;  // prompt tokens read between two cycles, while running requests wait
constexpr int no_limit = std::numeric_limits<int>::max();

// The number of prompt tokens that need not be read if they are cached: all but the last.
int num_usable(const ScheduledRequest& request) { return request.sequence().length() - 1; }

// The same where only tokens are kept, without scores.
int num_usable_without_scores(const ScheduledRequest& request) {
  const Score* const score = request.sequence().prompt_score.get();
  return score == nullptr ? num_usable(request) : score->reusable(nullptr, num_usable(request));
}

// The scores of the num_read tokens that a request begins with and another one has read; null: none has.
void take_scores(const ScheduledRequest* other, int num_read, ScheduledRequest& request) {
  Score* const score = request.sequence().prompt_score.get();
  if (score == nullptr || num_read <= score->num_unscored()) return;
  score->take(*other->sequence().prompt_score, num_read);
}

}  // namespace

Scheduler::Scheduler(Decoder& decoder, Vocabulary vocabulary, int num_slots)
    : decoder_(decoder), vocabulary_(vocabulary), ledger_(decoder, num_slots), slot_choice_(num_slots) {
  running_.reserve(idx(num_slots));
  group_.reserve(idx(num_slots));
}

void Scheduler::add(std::shared_ptr<ScheduledRequest> request) {
  const bool is_over = request->sequence().remaining == 0 && !request->reads_prompt();
  Requests& queue = is_over ? ended_ : waiting_;
  queue.push_back(std::move(request));
  if (is_over) queue.back()->end();
}

std::optional<Event> Scheduler::next() {
  for (;;) {
    if (auto event = take_event()) return event;
    if (!step(no_limit)) return std::nullopt;
  }
}

const ScheduledRequest* Scheduler::reading() const {
  const auto is_reading = [](const auto& request) { return request->state() == ScheduledRequest::State::reading; };
  const auto found = std::find_if(begun_.begin(), begun_.end(), is_reading);
  return found == begun_.end() ? nullptr : found->get();
}

bool Scheduler::is_idle() const { return waiting_.empty() && ended_.empty() && begun_.empty(); }

std::optional<Event> Scheduler::take_event() {
  if (!ended_.empty()) {
    Event event{ended_.front(), std::nullopt};
    ended_.pop_front();
    return event;
  }
  for (int tried = 0; tried < num_slots(); ++tried) {
    const SlotLedger::Holder request = ledger_.holder(next_place_);
    if (ledger_.is_busy(next_place_) && request->has_pieces()) {
      Event event{request, std::nullopt};
      try {
        event.piece = request->next_piece(vocabulary_);
      } catch (...) {
        request->fail(std::current_exception());
      }
      if (event.is_last()) {
        finish(*request);
        begun_.erase(begun(*request));
      }
      return event;
    }
    next_place_ = (next_place_ + 1) % num_slots();
  }
  return std::nullopt;
}

bool Scheduler::step(int max_prompt_tokens) {
  const bool read = read_prompts(max_prompt_tokens);
  if (!any_is(ScheduledRequest::State::running)) return read;
  cycle();
  return true;
}

bool Scheduler::any_is(ScheduledRequest::State state) const {
  return std::any_of(begun_.begin(), begun_.end(), [state](const auto& request) { return request->state() == state; });
}

// Reads one prompt after another, so that each can reuse the prefix it shares with earlier ones. max_tokens: how much
// to read at once while no running request waits. Returns false if there was no prompt to read.
bool Scheduler::read_prompts(int max_tokens) {
  bool any = false;
  for (int left = reading_chunk; left > 0; any = true) {
    const auto is_reading = [](const auto& request) { return request->state() == ScheduledRequest::State::reading; };
    const auto reading = std::find_if(begun_.begin(), begun_.end(), is_reading);
    if (reading != begun_.end()) {
      ScheduledRequest& request = **reading;  // its slot keeps it
      left -= read_prompt(request, any_is(ScheduledRequest::State::running) ? left : max_tokens);
    } else if (!begin_next_request()) {
      break;
    }
  }
  return any;
}

std::optional<SlotChoice::Chosen> Scheduler::choose_slot(const ScheduledRequest& request, int stored) {
  std::vector<SlotChoice::Slot> slots;
  const Score* const score = request.sequence().prompt_score.get();
  for (int place = 0; place < num_slots(); ++place) {
    const int number = ledger_.number(place), length = ledger_.length(place);
    const bool is_free = !ledger_.is_busy(place) && request.wanted_slot().value_or(number) == number;
    const SlotLedger::Holder& holder = ledger_.holder(place);
    SlotChoice::Slot slot{is_free, ledger_.text(place), length, number};
    if (score != nullptr && holder) slot.usable = score->reusable(holder->sequence().prompt_score.get(), length);
    slots.push_back(slot);
  }
  return slot_choice_.choose(request.sequence(), num_usable(request), slots, stored);
}

bool Scheduler::can_begin(const ScheduledRequest& request) const {
  if (const std::optional<int> wanted = request.wanted_slot()) return !ledger_.is_busy(ledger_.place_of(*wanted));
  return static_cast<int>(begun_.size()) < num_slots();
}

// Takes a request from those that wait: it reads its prompt, or has failed. Returns false if none can begin. A request
// that waits for its own slot lets later ones pass.
bool Scheduler::begin_next_request() {
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), [this](const auto& r) { return can_begin(*r); });
  if (next == waiting_.end()) return false;
  try {
    if (!give_slot(*next)) return false;
    begun_.splice(begun_.end(), waiting_, next);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    (*next)->fail(std::current_exception());
    ended_.splice(ended_.end(), waiting_, next);
  }
  return true;
}

int Scheduler::stored_prefix(const ScheduledRequest& request) noexcept {
  if (store_ == nullptr) return 0;
  try {
    return store_->longest_prefix(request.sequence(), num_usable_without_scores(request));
  } catch (...) {  // no memory: all of it is read
    return 0;
  }
}

bool Scheduler::give_slot(const std::shared_ptr<ScheduledRequest>& request) {
  const Text& prompt = request->sequence();
  const int usable = num_usable_without_scores(*request);
  const int stored = stored_prefix(*request);
  const std::optional<SlotChoice::Chosen> chosen = choose_slot(*request, stored);
  if (!chosen) return false;
  const int place = chosen->slot, source = chosen->source;
  keep_what_is_lost(place, chosen->prefix);
  const SlotLedger::Holder scored = ledger_.holder(source >= 0 ? source : place);
  SlotLedger::Change change(ledger_, place);
  const auto restore = [&] { return store_->restore(prompt, usable, place); };
  const auto copy = [&] {
    decoder_.copy_prefix(source, place, chosen->source_prefix);
    return true;
  };
  int prefix = std::max(chosen->prefix, chosen->source_prefix);
  if (stored >= prefix + worth_copying && change.fill(restore)) prefix = stored;
  else if (source >= 0) change.fill(copy);
  prefix = change.keep(prefix);
  request->sequence().stats.prompt_cached_tokens = prefix;
  take_scores(scored.get(), prefix, *request);
  change.commit(request);
  request->begin_reading(place, ledger_.number(place));
  slot_choice_.use(ledger_.number(place));
  return true;
}

// Called before all but the first num_kept tokens of an idle slot are overwritten. Losing only a few, such as those of
// a retried answer, is not worth a copy.
void Scheduler::keep_what_is_lost(int place, int num_kept) {
  const int cached = ledger_.length(place);
  if (store_ == nullptr || cached == 0 || 2 * num_kept > cached) return;
  store_->overwritten(place, *ledger_.text(place), cached);
}

bool Scheduler::keep_idle_prefixes() {
  bool is_done = true;
  for (int place = 0; place < num_slots() && store_ != nullptr; ++place) {
    const int cached = ledger_.length(place);
    if (ledger_.is_busy(place) || cached == 0) continue;
    is_done = store_->idle(place, *ledger_.text(place), cached) && is_done;
  }
  return is_done;
}

// Returns the number of tokens read.
int Scheduler::read_prompt(ScheduledRequest& request, int max_tokens) {
  Sequence& s = request.sequence();
  const int cached = num_cached(request);
  prompt_pass_ = {&request, cached, decoder_.prefill_end(s, max_tokens)};
  is_abandoned_ = false;
  bool is_over = false;
  std::exception_ptr interruption;
  try {
    if (decoder_.prefill(s, max_tokens)) {
      request.begin_running();
      is_over = s.remaining == 0;
    }
  } catch (const Cancelled&) {
    interruption = std::current_exception();
  } catch (...) {
    request.fail(std::current_exception());
    is_over = true;
  }
  prompt_pass_ = {};
  const int read = num_cached(request) - cached;
  if (is_abandoned_) {
    finish(request);
    begun_.erase(begun(request));
  } else if (is_over) {
    end_without_piece(request);
  }
  if (interruption) std::rethrow_exception(interruption);
  return read;
}

void Scheduler::cycle() {
  try {
    if (waiting_.empty()) close_gaps();
  } catch (...) {  // the gaps stay
  }
  running_.clear();
  for (int place = 0; place < num_slots(); ++place) {
    const SlotLedger::Holder& request = ledger_.holder(place);
    if (request && request->state() == ScheduledRequest::State::running) running_.push_back(&request->sequence());
  }
  const auto most = idx(decoder_.capacity(running_));
  const std::size_t num_groups = (running_.size() + most - 1) / most;
  for (std::size_t group = 0; group < num_groups; ++group) {
    const auto place = [&](std::size_t i) {
      return running_.begin() + static_cast<std::ptrdiff_t>(running_.size() * i / num_groups);
    };
    group_.assign(place(group), place(group + 1));
    run_cycle();
  }
}

void Scheduler::run_cycle() {
  std::exception_ptr error;
  try {
    decoder_.cycle(group_);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    error = std::current_exception();
  }
  for (Sequence* s : group_) {
    ScheduledRequest& request = *ledger_.holder(s->slot);
    if (error || s->error) {
      request.fail(error ? error : s->error);
      end_without_piece(request);
    } else {
      request.take_emitted();
    }
  }
}

// If requests have ended and none is waiting, moves the others to adjacent slots, because a pass over adjacent slots is
// the fastest. What an idle slot caches is moved out of the way: to an empty slot, or else to the place that the
// request leaves.
void Scheduler::close_gaps() {
  int gap = 0;
  while (gap < num_slots() && !ledger_.is_busy(gap)) ++gap;
  for (; gap < num_slots(); ++gap) {
    if (ledger_.is_busy(gap)) continue;
    int last = num_slots() - 1;
    while (last > gap && !ledger_.is_busy(last)) --last;
    if (last == gap) return;
    if (const auto empty = empty_place(); empty && ledger_.length(gap) > 0) ledger_.move(gap, *empty);
    const std::optional<PrefixFile> displaced = saved(gap);
    const SlotLedger::Holder request = ledger_.holder(gap);
    ledger_.move(last, gap);
    if (displaced) put_back(last, *displaced, request);
  }
}

std::optional<int> Scheduler::empty_place() const {
  for (int place = num_slots(); place-- > 0;) {
    if (!ledger_.is_busy(place) && ledger_.length(place) == 0) return place;
  }
  return std::nullopt;
}

// Nullopt if nothing is cached or it cannot be saved.
std::optional<PrefixFile> Scheduler::saved(int place) noexcept {
  const int length = ledger_.length(place);
  if (length == 0 || states_ == nullptr) return std::nullopt;
  try {
    return states_->save(place, *ledger_.text(place), length);
  } catch (...) {  // no memory, or the draft's head was interrupted
    return std::nullopt;
  }
}

// If this fails, the tokens are read again.
void Scheduler::put_back(int place, const PrefixFile& prefix, SlotLedger::Holder request) {
  SlotLedger::Change change(ledger_, place);
  if (change.fill([&] { return states_->restore(place, prefix); })) change.commit(std::move(request));
}

Scheduler::Requests::iterator Scheduler::begun(const ScheduledRequest& request) noexcept {
  return std::find_if(begun_.begin(), begun_.end(), [&](const auto& other) { return other.get() == &request; });
}

// Ends a request that has a slot, which keeps the delivered tokens; if they cannot be kept, the slot is empty.
void Scheduler::finish(ScheduledRequest& request) noexcept {
  request.end();
  Sequence& s = request.sequence();
  try {
    decoder_.truncate(s, request.num_delivered());
  } catch (...) {
    ledger_.clear(s.slot);
  }
  slot_choice_.use(ledger_.number(s.slot));
  if (!remembers_outputs_) return;
  try {
    decoder_.remember(s, static_cast<int>(s.stats.prompt_tokens));
  } catch (...) {  // no memory: later outputs copy nothing from this one
  }
}

void Scheduler::end_without_piece(ScheduledRequest& request) noexcept {
  const auto place = begun(request);
  finish(request);
  ended_.splice(ended_.end(), begun_, place);
}

void Scheduler::cancel(std::int64_t id) noexcept {
  for (Requests* queue : {&begun_, &waiting_, &ended_}) {
    const auto found = std::find_if(queue->begin(), queue->end(), [id](const auto& r) { return r->id() == id; });
    if (found == queue->end()) continue;
    if ((*found)->has_slot()) finish(**found);
    (*found)->end();
    queue->erase(found);
  }
}

bool Scheduler::adopt(const std::shared_ptr<ScheduledRequest>& request, const std::function<bool(int)>& fill) {
  const std::optional<SlotChoice::Chosen> chosen = choose_slot(*request, 0);
  if (!chosen) return false;
  const int place = chosen->slot;
  keep_what_is_lost(place, chosen->prefix);
  SlotLedger::Change change(ledger_, place);
  request->begin_reading(place, ledger_.number(place));
  request->end();
  if (fill(place)) change.commit(request);
  slot_choice_.use(ledger_.number(place));
  return true;
}

int Scheduler::erase(int slot) {
  const int place = ledger_.place_of(slot), count = ledger_.length(place);
  ledger_.clear(place);
  return count;
}

void Scheduler::cancel_all() noexcept {
  for (const auto& request : begun_) finish(*request);
  for (const auto& request : waiting_) request->end();
  for (Requests* queue : {&begun_, &waiting_, &ended_}) queue->clear();
}

}  // namespace specdec
