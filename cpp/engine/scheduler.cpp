#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace specdec {
namespace {

constexpr int reading_chunk = 128;  // prompt tokens read between two cycles, while running requests wait, or two calls of progress
constexpr int no_limit = std::numeric_limits<int>::max();
constexpr int worth_copying = 32;  // tokens; reading fewer is faster than copying a slot

bool is_active(const std::shared_ptr<Text>& text) { return text && text->has_slot(); }

}  // namespace

Scheduler::Scheduler(Decoder& decoder, Vocabulary vocabulary, int num_slots)
    : decoder_(decoder), vocabulary_(vocabulary), slots_(static_cast<std::size_t>(num_slots)) {}

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

// The number of prompt tokens that a slot has cached. The prompt's last token is always read again, and all that are to be scored.
int Scheduler::common_prefix(const Text* cached, const Text& text) const {
  if (cached == nullptr || text.sequence().prompt_score) return 0;
  const std::vector<Token>& wanted = text.sequence().tokens;
  const std::vector<Token>& tokens = cached->sequence().tokens;
  const auto length = static_cast<std::ptrdiff_t>(
      std::min({wanted.size() - 1, tokens.size(), static_cast<std::size_t>(decoder_.num_cached(cached->sequence().slot))}));
  return static_cast<int>(std::mismatch(tokens.begin(), tokens.begin() + length, wanted.begin()).first - tokens.begin());
}

// Assigns a free slot to the next request, with the longest prefix of its prompt that is cached in any slot.
void Scheduler::begin_next_text() {
  if (waiting_.empty()) return;
  const std::shared_ptr<Text> text = waiting_.front();
  int free = -1, free_prefix = -1, best = -1, best_prefix = 0;
  for (int slot = 0; slot < num_slots(); ++slot) {
    const std::shared_ptr<Text>& cached = slots_[static_cast<std::size_t>(slot)];
    const int prefix = common_prefix(cached.get(), *text);
    if (prefix > best_prefix) best = slot, best_prefix = prefix;
    if (!is_active(cached) && prefix > free_prefix) free = slot, free_prefix = prefix;
  }
  if (free < 0) return;
  waiting_.pop_front();
  text->begin_reading(free);
  if (best_prefix >= free_prefix + worth_copying) {
    decoder_.copy_prefix(best, free, best_prefix);
    free_prefix = best_prefix;
  }
  text->sequence().stats.prompt_cached_tokens = decoder_.keep_prefix(free, free_prefix);
  slots_[static_cast<std::size_t>(free)] = text;
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
    decoder_.move((*last)->sequence(), static_cast<int>(gap));
    slots_[gap] = std::move(*last);
    last->reset();
  }
}

void Scheduler::finish(Text& text) {
  text.end();
  decoder_.truncate(text.sequence(), text.num_delivered());
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
