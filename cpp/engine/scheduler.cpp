#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace specdec {
namespace {

constexpr int reading_chunk = 128;  // prompt tokens read between two cycles, while running requests wait
constexpr int no_limit = std::numeric_limits<int>::max();

bool is_active(const std::shared_ptr<ScheduledRequest>& request) { return request && request->has_slot(); }

// The number of prompt tokens that need not be read if they are cached: all but the last.
int num_usable(const ScheduledRequest& request) { return static_cast<int>(request.sequence().tokens.size()) - 1; }

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
    : decoder_(decoder),
      vocabulary_(vocabulary),
      slots_(idx(num_slots)),
      numbers_(idx(num_slots)),
      slot_choice_(num_slots) {
  std::iota(numbers_.begin(), numbers_.end(), 0);
}

void Scheduler::add(std::shared_ptr<ScheduledRequest> request) {
  if (request->sequence().remaining == 0 && !request->reads_prompt()) {
    request->end();
    ended_.push_back(std::move(request));
  } else {
    waiting_.push_back(std::move(request));
  }
}

std::optional<Event> Scheduler::next() {
  for (;;) {
    if (auto event = take_event()) return event;
    if (!step(no_limit)) return std::nullopt;
  }
}

const ScheduledRequest* Scheduler::reading() const {
  const auto is_reading = [](const auto& request) {
    return request && request->state() == ScheduledRequest::State::reading;
  };
  const auto found = std::find_if(slots_.begin(), slots_.end(), is_reading);
  return found == slots_.end() ? nullptr : found->get();
}

bool Scheduler::is_idle() const {
  return waiting_.empty() && ended_.empty() && std::none_of(slots_.begin(), slots_.end(), is_active);
}

std::optional<Event> Scheduler::take_event() {
  if (!ended_.empty()) {
    Event event{ended_.front(), std::nullopt};
    ended_.pop_front();
    return event;
  }
  for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
    const std::shared_ptr<ScheduledRequest>& request = slots_[next_slot_];
    if (is_active(request) && request->has_pieces()) {
      Event event{request, request->next_piece(vocabulary_)};
      if (event.is_last()) finish(*request);
      return event;
    }
    next_slot_ = (next_slot_ + 1) % slots_.size();
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
  return std::any_of(slots_.begin(), slots_.end(),
                     [state](const auto& request) { return request && request->state() == state; });
}

// Reads one prompt after another, so that each can reuse the prefix it shares with earlier ones. max_tokens: how much
// to read at once while no running request waits. Returns false if there was no prompt to read.
bool Scheduler::read_prompts(int max_tokens) {
  bool any = false;
  for (int left = reading_chunk; left > 0; any = true) {
    if (!any_is(ScheduledRequest::State::reading)) begin_next_request();
    const auto is_reading = [](const auto& request) {
      return request && request->state() == ScheduledRequest::State::reading;
    };
    const auto reading = std::find_if(slots_.begin(), slots_.end(), is_reading);
    if (reading == slots_.end()) break;
    left -= read_prompt(**reading, any_is(ScheduledRequest::State::running) ? left : max_tokens);
  }
  return any;
}

int Scheduler::num_cached(std::size_t slot) const {
  return slots_[slot] ? decoder_.num_cached(static_cast<int>(slot)) : 0;
}

std::optional<SlotChoice::Chosen> Scheduler::choose_slot(const ScheduledRequest& request, int stored) {
  std::vector<SlotChoice::Slot> slots;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::shared_ptr<ScheduledRequest>& cached = slots_[i];
    const bool is_free = !is_active(cached) && request.wanted_slot().value_or(numbers_[i]) == numbers_[i];
    const int length = num_cached(i);
    SlotChoice::Slot slot{is_free, cached ? &cached->sequence().tokens : nullptr, length, length};
    if (const Score* const score = request.sequence().prompt_score.get(); score != nullptr && cached)
      slot.usable = score->reusable(cached->sequence().prompt_score.get(), length);
    slots.push_back(slot);
  }
  return slot_choice_.choose(request.sequence().tokens, num_usable(request), slots, stored);
}

std::size_t Scheduler::place_of(int slot) const {
  return idx(std::find(numbers_.begin(), numbers_.end(), slot) - numbers_.begin());
}

bool Scheduler::can_begin(const ScheduledRequest& request) const {
  if (const std::optional<int> wanted = request.wanted_slot()) return !is_active(slots_[place_of(*wanted)]);
  return !std::all_of(slots_.begin(), slots_.end(), is_active);
}

// A request that waits for its own slot lets later ones pass.
void Scheduler::begin_next_request() {
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), [this](const auto& r) { return can_begin(*r); });
  if (next == waiting_.end()) return;
  std::shared_ptr<ScheduledRequest> request = *next;
  const std::vector<Token>& prompt = request->sequence().tokens;
  const int most_stored = num_usable_without_scores(*request);
  const int stored = store_ != nullptr ? store_->longest_prefix(prompt, most_stored) : 0;
  const std::optional<SlotChoice::Chosen> chosen = choose_slot(*request, stored);
  if (!chosen) return;
  waiting_.erase(next);
  const int slot = chosen->slot;
  request->begin_reading(slot, numbers_[idx(slot)]);
  keep_what_is_lost(idx(slot), chosen->prefix);
  int prefix = std::max(chosen->prefix, chosen->source_prefix);
  if (stored >= prefix + worth_copying && store_->restore(prompt, most_stored, slot)) prefix = stored;
  else if (chosen->source >= 0) decoder_.copy_prefix(chosen->source, slot, chosen->source_prefix);
  prefix = decoder_.reuse_prefix(slot, prefix);
  request->sequence().stats.prompt_cached_tokens = prefix;
  take_scores(slots_[idx(chosen->source >= 0 ? chosen->source : slot)].get(), prefix, *request);
  slots_[idx(slot)] = std::move(request);
  slot_choice_.use(slot);
}

// Called before all but the first num_kept tokens of an idle slot are overwritten. Losing only a few, such as those of
// a retried answer, is not worth a copy.
void Scheduler::keep_what_is_lost(std::size_t slot, int num_kept) {
  const int cached = num_cached(slot);
  if (store_ == nullptr || 2 * num_kept > cached) return;
  store_->overwritten(static_cast<int>(slot), slots_[slot]->sequence().tokens, cached);
}

bool Scheduler::keep_idle_prefixes() {
  bool is_done = true;
  for (std::size_t i = 0; i < slots_.size() && store_ != nullptr; ++i) {
    if (is_active(slots_[i]) || num_cached(i) == 0) continue;
    is_done = store_->idle(static_cast<int>(i), slots_[i]->sequence().tokens, num_cached(i)) && is_done;
  }
  return is_done;
}

// Returns the number of tokens read.
int Scheduler::read_prompt(ScheduledRequest& request, int max_tokens) {
  const int cached = decoder_.num_cached(request.sequence().slot);
  try {
    if (decoder_.prefill(request.sequence(), max_tokens)) {
      request.begin_running();
      if (request.sequence().remaining == 0) end_without_piece(request);
    }
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    fail(request, std::current_exception());
  }
  return decoder_.num_cached(request.sequence().slot) - cached;
}

void Scheduler::cycle() {
  if (waiting_.empty()) close_gaps();
  running_.clear();
  for (const std::shared_ptr<ScheduledRequest>& request : slots_) {
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
    ScheduledRequest& request = *slots_[idx(s->slot)];
    if (error || s->error) fail(request, error ? error : s->error);
    else request.take_emitted();
  }
}

// If requests have ended and none is waiting, moves the others to adjacent slots, because a pass over adjacent slots is
// the fastest. What an idle slot caches is moved out of the way: to an empty slot, or else to the place that the
// request leaves.
void Scheduler::close_gaps() {
  const auto first = std::find_if(slots_.begin(), slots_.end(), is_active);
  for (auto gap = idx(first - slots_.begin()); gap < slots_.size(); ++gap) {
    if (is_active(slots_[gap])) continue;
    const auto slot = idx(slots_.rend() - std::find_if(slots_.rbegin(), slots_.rend(), is_active)) - 1;
    if (slot < gap) return;
    if (const auto empty = empty_slot(); empty && num_cached(gap) > 0) move(gap, *empty);
    const std::optional<PrefixFile> displaced = saved(gap);
    const std::shared_ptr<ScheduledRequest> request = slots_[gap];
    move(slot, gap);
    if (displaced) put_back(slot, *displaced, request);
  }
}

std::optional<std::size_t> Scheduler::empty_slot() const {
  for (std::size_t i = slots_.size(); i-- > 0;) {
    if (!is_active(slots_[i]) && num_cached(i) == 0) return i;
  }
  return std::nullopt;
}

// Moves what a slot caches, with its request and number, to another one, whose cache is overwritten.
void Scheduler::move(std::size_t from, std::size_t to) {
  decoder_.move(slots_[from]->sequence(), static_cast<int>(to));
  slots_[to] = std::move(slots_[from]);
  std::swap(numbers_[from], numbers_[to]);
  slot_choice_.exchange(static_cast<int>(from), static_cast<int>(to));
}

// Nullopt if nothing is cached or it cannot be saved.
std::optional<PrefixFile> Scheduler::saved(std::size_t slot) noexcept {
  const int length = num_cached(slot);
  if (length == 0 || states_ == nullptr) return std::nullopt;
  try {
    return states_->save(static_cast<int>(slot), slots_[slot]->sequence().tokens, length);
  } catch (...) {  // no memory, or the draft's head was interrupted
    return std::nullopt;
  }
}

// If this fails, the tokens are read again.
void Scheduler::put_back(std::size_t slot, const PrefixFile& prefix,
                         std::shared_ptr<ScheduledRequest> request) noexcept {
  try {
    if (!states_->restore(static_cast<int>(slot), prefix)) return;
    request->sequence().slot = static_cast<int>(slot);
    slots_[slot] = std::move(request);
  } catch (...) {
  }
}

void Scheduler::finish(ScheduledRequest& request) {
  request.end();
  decoder_.truncate(request.sequence(), request.num_delivered());
  slot_choice_.use(request.sequence().slot);
  if (remembers_outputs_)
    decoder_.remember(request.sequence(), static_cast<int>(request.sequence().stats.prompt_tokens));
}

void Scheduler::fail(ScheduledRequest& request, std::exception_ptr error) {
  request.fail(std::move(error));
  end_without_piece(request);
}

void Scheduler::end_without_piece(ScheduledRequest& request) {
  finish(request);
  ended_.push_back(slots_[idx(request.sequence().slot)]);
}

void Scheduler::cancel(std::int64_t id) {
  const auto is_request = [id](const std::shared_ptr<ScheduledRequest>& request) {
    return request && request->id() == id;
  };
  const auto running = std::find_if(slots_.begin(), slots_.end(), is_request);
  if (running != slots_.end() && is_active(*running)) finish(**running);
  for (auto* queue : {&waiting_, &ended_}) {
    const auto place = std::find_if(queue->begin(), queue->end(), is_request);
    if (place == queue->end()) continue;
    (*place)->end();
    queue->erase(place);
  }
}

bool Scheduler::is_cached(const ScheduledRequest& request) const {
  const int slot = request.sequence().slot;
  return slot >= 0 && slots_[idx(slot)].get() == &request;
}

int Scheduler::adopt(std::shared_ptr<ScheduledRequest> request) {
  const std::optional<SlotChoice::Chosen> chosen = choose_slot(*request, 0);
  if (!chosen) return -1;
  request->begin_reading(chosen->slot, numbers_[idx(chosen->slot)]);
  request->end();
  keep_what_is_lost(idx(chosen->slot), chosen->prefix);
  decoder_.keep_prefix(chosen->slot, 0);
  slots_[idx(chosen->slot)] = std::move(request);
  slot_choice_.use(chosen->slot);
  return chosen->slot;
}

int Scheduler::erase(int slot) {
  const std::size_t place = place_of(slot);
  const int count = num_cached(place);
  decoder_.keep_prefix(static_cast<int>(place), 0);
  slots_[place].reset();
  return count;
}

void Scheduler::cancel_all() {
  for (const std::shared_ptr<ScheduledRequest>& request : slots_) {
    if (is_active(request)) finish(*request);
  }
  for (const std::shared_ptr<ScheduledRequest>& request : waiting_) request->end();
  waiting_.clear();
  ended_.clear();
}

}  // namespace specdec
