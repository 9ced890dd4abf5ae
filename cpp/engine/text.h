// One text from its request to its last piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "llama/vocabulary.h"
#include "speculative/sequence.h"

namespace specdec {

class Text {
 public:
  // id: of the caller's choice. num_draft_tokens: 0 where there is no draft. Throws std::invalid_argument for an empty stop
  // string.
  Text(std::int64_t id, const Request& request, std::vector<Token> prompt, std::uint64_t seed, int num_draft_tokens);

  // What happens to it, in this order; end() and fail() may come at any time, and be repeated. Others throw std::logic_error.
  enum class State { waiting, reading, running, over };  // for a slot; its prompt; making tokens
  void begin_reading(int slot);
  void begin_running();
  void end();                           // nothing more will be asked for; what was made and not delivered no longer counts
  void fail(std::exception_ptr error);  // ends it early

  State state() const { return state_; }
  bool has_slot() const { return state_ == State::reading || state_ == State::running; }
  bool has_failed() const { return error_ != nullptr; }
  const std::exception_ptr& error() const { return error_; }
  void rethrow_error() const;         // if it has failed
  std::string error_message() const;  // in words; empty if it has not

  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  std::int64_t id() const { return id_; }
  std::uint64_t seed() const { return seed_; }
  Verification verification() const { return sequence_.verification; }

  // Takes over what the sequence's last cycle made.
  void take_emitted() { next_ = 0; }
  bool has_pieces() const { return next_ < sequence_.emitted.size(); }
  Piece next_piece(const Vocabulary& vocabulary);
  int num_delivered() const { return num_delivered_; }  // tokens, the prompt's included

 private:
  void advance(State from, State to);

  std::int64_t id_;
  State state_ = State::waiting;
  std::exception_ptr error_;  // what ended it early
  Sequence sequence_;
  TextStream stream_;
  std::uint64_t seed_;
  std::size_t next_ = 0;     // of what was emitted: not delivered yet
  std::string token_bytes_;  // of the piece in the making
  int num_delivered_;
};

}  // namespace specdec
