// Which texts run: continuous batching. Texts wait for one of a fixed number of slots (places in the caches), read their
// prompts one after another, and then make tokens together, one target pass per cycle for all; each leaves when it is done.
//
// What a text says does not depend on the others: models compute the same bits for any batch, and its random numbers are its own.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/text.h"
#include "speculative/decoder.h"

namespace specdec {

// What happened to a text: a piece of it; or its end without one: by an error, or because nothing was asked for.
struct Event {
  std::shared_ptr<const Text> text;
  std::optional<Piece> piece;
  bool is_last() const { return !piece || piece->finish_reason.has_value(); }
};

class Scheduler {
 public:
  Scheduler(Decoder& decoder, Vocabulary vocabulary, int num_slots);

  void add(std::shared_ptr<Text> text);
  // The next thing that happens, running the models until it does; none when no text is left. What concerns one text ends that
  // text. Throws Cancelled; then every text can go on.
  std::optional<Event> next();
  // Reads prompts until the text has read its own, or failed to. Throws Cancelled. It must be able to get a slot.
  void read_prompt_of(const Text& text);

  // Ends a text here; its slot is free and keeps what was delivered.
  void cancel(std::int64_t id);
  void cancel_all();

  int num_slots() const { return static_cast<int>(slots_.size()); }

 private:
  bool step();
  std::optional<Event> take_event();
  void begin_next_text();
  int common_prefix(const Text* cached, const Text& text) const;
  bool any_is(Text::State state) const;
  bool read_prompts();
  int read_prompt(Text& text, int max_tokens);
  void cycle();
  void run_cycle();
  void close_gaps();
  void finish(Text& text);
  void fail(Text& text, std::exception_ptr error);

  Decoder& decoder_;
  Vocabulary vocabulary_;
  std::deque<std::shared_ptr<Text>> waiting_;
  std::vector<std::shared_ptr<Text>> slots_;  // the text that runs there, or whose tokens are still cached there, or null
  std::deque<std::shared_ptr<Text>> ended_;   // without a last piece, not reported yet
  std::size_t next_slot_ = 0;                 // whose pieces are delivered next
  std::vector<Sequence*> running_, group_;
};

}  // namespace specdec
