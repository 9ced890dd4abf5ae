// The state of a request from its arrival in the scheduler to its last piece: its sequence, slot and text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_output_reader.h"
#include "engine/request.h"
#include "engine/text_stream.h"
#include "llama/vocabulary.h"
#include "speculative/sequence.h"

namespace specdec {

class ScheduledRequest {
 public:
  // id: unique among the requests of a generator. num_draft_tokens: 0 if there is no draft. Throws ArgumentError for an
  // empty stop string.
  ScheduledRequest(std::int64_t id, const Request& request, Text prompt, std::uint64_t seed, int num_draft_tokens,
                   sampling::TokenRules rules = {});

  // The constraint that the output obeys; null: none. To be set before the request begins.
  void constrain(std::unique_ptr<sampling::Constraint> constraint);

  // Control tokens that appear in the text by name. To be set before the request begins.
  void render_by_name(std::vector<Token> control_tokens) { control_tokens_ = std::move(control_tokens); }
  // The likely output; empty: unknown. To be set before the request begins.
  void predict(const std::vector<Token>& output);

  // The states, in order. end() and fail() may be called at any time and repeatedly; other transitions out of order
  // throw std::logic_error.
  enum class State { waiting, reading, running, over };  // waiting for a slot; reading its prompt; generating
  void begin_reading(int place, int slot);
  void begin_running();
  void end();                           // drops tokens that were generated but not delivered
  void fail(std::exception_ptr error);  // ends the request early

  State state() const { return state_; }
  bool has_slot() const { return state_ == State::reading || state_ == State::running; }
  bool has_failed() const { return error_ != nullptr; }
  const std::exception_ptr& error() const { return error_; }
  void rethrow_error() const;         // if the request has failed
  std::string error_message() const;  // empty if the request has not failed

  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  std::int64_t id() const { return id_; }
  std::uint64_t seed() const { return seed_; }
  Verification verification() const { return sequence_.verification; }
  // Whether the same request with seed() and verification() gives the same output: false if the output depends on draft
  // lengths, and these on measured times.
  bool is_repeatable() const { return is_repeatable_; }

  // The requested slot (Request::slot), and the number of the slot that the request has or had; -1: none so far. The
  // slot's place in the caches, sequence().slot, may change.
  const std::optional<int>& wanted_slot() const { return wanted_slot_; }
  int slot() const { return slot_; }

  // Whether the prompt is read although nothing is generated.
  bool reads_prompt() const { return reads_prompt_; }

  // Available for Request::score_prompt once the prompt is read, and final then; otherwise null.
  std::shared_ptr<const Score> prompt_score() const;

  // Makes the tokens of the sequence's last cycle available as pieces.
  void take_emitted() { next_ = 0; }
  bool has_pieces() const { return next_ < sequence_.emitted.size(); }
  Piece next_piece(const Vocabulary& vocabulary);
  int num_delivered() const { return num_delivered_; }  // tokens, including the prompt

 private:
  void advance(State from, State to);

  std::int64_t id_;
  State state_ = State::waiting;
  std::exception_ptr error_;  // the error that ended it; null if none
  Sequence sequence_;
  TextStream stream_;
  std::optional<ChatOutputReader> one_call_;  // if the output ends where a second call begins
  std::vector<Token> control_tokens_;
  std::uint64_t seed_;
  std::optional<int> wanted_slot_;
  int slot_ = -1;
  bool is_repeatable_;
  bool reads_prompt_;
  std::size_t next_ = 0;     // index into the sequence's `emitted` of the next piece
  std::string token_bytes_;  // bytes of the current piece's token
  int num_delivered_;
};

}  // namespace specdec
