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

  enum class State { waiting, reading, running, over };  // for a slot; its prompt; making tokens
  State state = State::waiting;
  std::exception_ptr error;  // what ended it early
  std::string error_message() const;  // in words; empty without one

  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  std::int64_t id() const { return id_; }
  std::uint64_t seed() const { return seed_; }
  Verification verification() const { return sequence_.verification; }

  // Takes over what the sequence's last cycle made.
  void take_emitted() { next_ = 0; }
  bool has_pieces() const { return next_ < sequence_.emitted.size(); }
  Piece next_piece(const Vocabulary& vocabulary);
  // Nothing more will be asked for. What was made and not delivered no longer counts.
  void end();
  int num_delivered() const { return num_delivered_; }  // tokens, the prompt's included

 private:
  std::int64_t id_;
  Sequence sequence_;
  TextStream stream_;
  std::uint64_t seed_;
  std::size_t next_ = 0;     // of what was emitted: not delivered yet
  std::string token_bytes_;  // of the piece in the making
  int num_delivered_;
};

}  // namespace specdec
