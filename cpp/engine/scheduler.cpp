#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace specdec {
namespace {

constexpr int reading_chunk = 128;  // prompt tokens read between two cycles, while running requests wait, or two calls of progress
constexpr int no_limit = std::numeric_limits<int>::max();

bool is_active(const std::shared_ptr<Text>& text) { return text && text->has_slot(); }

// The prompt tokens that need not be read if they are cached: not the last one, and none that are to be scored.
int num_usable(const Text& text) { return text.sequence().prompt_score ? 0 : static_cast<int>(text.sequence().tokens.size()) - 1; }

}  // namespace

Scheduler::Scheduler(Decoder& decoder, Vocabulary vocabulary, int num_slots)
    : decoder_(decoder), vocabulary_(vocabulary), slots_(static_cast<std::size_t>(num_slots)), slot_choice_(num_slots) {}

void Scheduler::add(std::shared_ptr<Text> text) {
  if (text->sequence().remaining == 0 && !text->sequence().prompt_score) {
    text->end();
    ended_.push_back(std::move(text));
  } else {
    waiting_.push_back(std::move(text));
  }
}

std::optional<Event> Scheduler::next() {
  for (;;) {
    if (auto event = take_event()) return event;
    if (!step(no_limit)) return std::nullopt;
  }
}

void Scheduler::read_prompt_of(const Text& text, const PromptProgress& progress) {
  while (text.state() == Text::State::waiting || text.state() == Text::State::reading) {
    const bool is_waiting = text.state() == Text::State::waiting;
    if (progress) progress(is_waiting ? 0 : decoder_.num_cached(text.sequence().slot), text.sequence().stats.prompt_tokens);
    read_prompts(progress ? reading_chunk : no_limit);
  }
}

std::optional<Event> Scheduler::take_event() {
  if (!ended_.empty()) {
    Event event{ended_.front(), std::nullopt};
    ended_.pop_front();
    return event;
  }
  for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
    const std::shared_ptr<Text>& text = slots_[next_slot_];
    if (is_active(text) && text->has_pieces()) {
      Event event{text, text->next_piece(vocabulary_)};
      if (event.is_last()) finish(*text);
      return event;
    }
    next_slot_ = (next_slot_ + 1) % slots_.size();
  }
  return std::nullopt;
}

bool Scheduler::step(int max_prompt_tokens) {
  const bool read = read_prompts(max_prompt_tokens);
  if (!any_is(Text::State::running)) return read;
  cycle();
  return true;
}

bool Scheduler::any_is(Text::State state) const {
  return std::any_of(slots_.begin(), slots_.end(), [state](const auto& text) { return text && text->state() == state; });
}

// Reads one prompt after another, so that each can reuse the prefix it shares with earlier ones. max_tokens: of a prompt that no
// running request waits for. Returns false if there was none to read.
bool Scheduler::read_prompts(int max_tokens) {
  bool any = false;
  for (int left = reading_chunk; left > 0; any = true) {
    if (!any_is(Text::State::reading)) begin_next_text();
    const auto is_reading = [](const auto& text) { return text && text->state() == Text::State::reading; };
    const auto reading = std::find_if(slots_.begin(), slots_.end(), is_reading);
    if (reading == slots_.end()) break;
    left -= read_prompt(**reading, any_is(Text::State::running) ? left : max_tokens);
  }
  return any;
}

int Scheduler::num_cached(std::size_t slot) const { return slots_[slot] ? decoder_.num_cached(static_cast<int>(slot)) : 0; }

std::optional<SlotChoice::Chosen> Scheduler::choose_slot(const Text& text, int stored) {
  std::vector<SlotChoice::Slot> slots;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::shared_ptr<Text>& cached = slots_[i];
    slots.push_back({!is_active(cached), cached ? &cached->sequence().tokens : nullptr, num_cached(i)});
  }
  return slot_choice_.choose(text.sequence().tokens, num_usable(text), slots, stored);
}

void Scheduler::begin_next_text() {
  if (waiting_.empty() || std::all_of(slots_.begin(), slots_.end(), is_active)) return;
  const std::shared_ptr<Text> text = waiting_.front();
  const std::vector<Token>& prompt = text->sequence().tokens;
  const int stored = store_ != nullptr ? store_->longest_prefix(prompt, num_usable(*text)) : 0;
  const std::optional<SlotChoice::Chosen> chosen = choose_slot(*text, stored);
  if (!chosen) return;
  waiting_.pop_front();
  const int slot = chosen->slot;
  text->begin_reading(slot);
  keep_what_is_lost(static_cast<std::size_t>(slot), chosen->prefix);
  int prefix = std::max(chosen->prefix, chosen->source_prefix);
  if (stored >= prefix + worth_copying && store_->restore(prompt, num_usable(*text), slot)) prefix = stored;
  else if (chosen->source >= 0) decoder_.copy_prefix(chosen->source, slot, chosen->source_prefix);
  text->sequence().stats.prompt_cached_tokens = decoder_.keep_prefix(slot, prefix);
  slots_[static_cast<std::size_t>(slot)] = text;
  slot_choice_.use(slot);
}

// Of an idle slot all but the first num_kept tokens are overwritten next. A few that are lost, as those of a retried answer, are not worth
// the copy.
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
int Scheduler::read_prompt(Text& text, int max_tokens) {
  const int cached = decoder_.num_cached(text.sequence().slot);
  try {
    if (decoder_.prefill(text.sequence(), max_tokens)) {
      text.begin_running();
      if (text.sequence().remaining == 0) end_without_piece(text);
    }
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    fail(text, std::current_exception());
  }
  return decoder_.num_cached(text.sequence().slot) - cached;
}

void Scheduler::cycle() {
  if (waiting_.empty()) close_gaps();
  running_.clear();
  for (const std::shared_ptr<Text>& text : slots_) {
    if (text && text->state() == Text::State::running) running_.push_back(&text->sequence());
  }
  const auto most = static_cast<std::size_t>(decoder_.capacity(running_));
  const std::size_t num_groups = (running_.size() + most - 1) / most;
  for (std::size_t group = 0; group < num_groups; ++group) {
    const auto place = [&](std::size_t i) { return running_.begin() + static_cast<std::ptrdiff_t>(running_.size() * i / num_groups); };
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
    Text& text = *slots_[static_cast<std::size_t>(s->slot)];
    if (error || s->error) fail(text, error ? error : s->error);
    else text.take_emitted();
  }
}

// If requests have ended and none is waiting, moves the others to adjacent slots: a pass over adjacent slots is the fastest.
void Scheduler::close_gaps() {
  const auto first = std::find_if(slots_.begin(), slots_.end(), is_active);
  for (auto gap = static_cast<std::size_t>(first - slots_.begin()); gap < slots_.size(); ++gap) {
    if (is_active(slots_[gap])) continue;
    const auto last = std::find_if(slots_.rbegin(), slots_.rend(), is_active);
    const auto slot = static_cast<std::size_t>(slots_.rend() - last) - 1;
    if (slot < gap) return;
    keep_elsewhere(gap);
    decoder_.move((*last)->sequence(), static_cast<int>(gap));
    slots_[gap] = std::move(*last);
    last->reset();
    slot_choice_.move(static_cast<int>(slot), static_cast<int>(gap));
  }
}

// Copies what an idle slot caches, which another request overwrites next, to an empty slot, or else leaves it to the store.
void Scheduler::keep_elsewhere(std::size_t gap) {
  if (num_cached(gap) == 0) return;
  for (std::size_t i = slots_.size(); i-- > 0;) {
    if (is_active(slots_[i]) || num_cached(i) > 0) continue;
    decoder_.copy_prefix(static_cast<int>(gap), static_cast<int>(i), num_cached(gap));
    slots_[gap]->sequence().slot = static_cast<int>(i);
    slots_[i] = std::move(slots_[gap]);
    slot_choice_.move(static_cast<int>(gap), static_cast<int>(i));
    return;
  }
  keep_what_is_lost(gap, 0);
}

void Scheduler::finish(Text& text) {
  text.end();
  decoder_.truncate(text.sequence(), text.num_delivered());
  slot_choice_.use(text.sequence().slot);
  if (remembers_outputs_) decoder_.remember(text.sequence(), static_cast<int>(text.sequence().stats.prompt_tokens));
}

void Scheduler::fail(Text& text, std::exception_ptr error) {
  text.fail(std::move(error));
  end_without_piece(text);
}

void Scheduler::end_without_piece(Text& text) {
  finish(text);
  ended_.push_back(slots_[static_cast<std::size_t>(text.sequence().slot)]);
}

void Scheduler::cancel(std::int64_t id) {
  const auto is_text = [id](const std::shared_ptr<Text>& text) { return text && text->id() == id; };
  const auto running = std::find_if(slots_.begin(), slots_.end(), is_text);
  if (running != slots_.end() && is_active(*running)) finish(**running);
  for (auto* queue : {&waiting_, &ended_}) {
    const auto place = std::find_if(queue->begin(), queue->end(), is_text);
    if (place == queue->end()) continue;
    (*place)->end();
    queue->erase(place);
  }
}

bool Scheduler::is_cached(const Text& text) const {
  const int slot = text.sequence().slot;
  return slot >= 0 && slots_[static_cast<std::size_t>(slot)].get() == &text;
}

void Scheduler::adopt(std::shared_ptr<Text> text) {
  text->begin_reading(0);
  text->end();
  slots_.front() = std::move(text);
  slot_choice_.use(0);
}

void Scheduler::cancel_all() {
  for (const std::shared_ptr<Text>& text : slots_) {
    if (is_active(text)) finish(*text);
  }
  for (const std::shared_ptr<Text>& text : waiting_) text->end();
  waiting_.clear();
  ended_.clear();
}

}  // namespace specdec
