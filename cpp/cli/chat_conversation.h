// A conversation with a model: its messages, and the prompt of the next answer, which the context must hold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/generator.h"

namespace specdec::cli {

class ChatConversation {
 public:
  // Without a template the messages follow each other as plain text. Throws ModelError if the template cannot be used.
  ChatConversation(const Generator& generator, const std::string& system);

  bool has_template() const { return generator_->has_chat_template(); }
  bool is_empty() const { return turns_.empty(); }
  std::size_t num_left_out() const { return left_out_; }  // turns

  void clear();
  void set_system(const std::string& system);  // and clears
  void ask(const std::string& question);
  void add_to_answer(const std::string& text, const std::vector<Token>& tokens);
  bool forget_answer();  // of the last turn; false: there is no turn
  bool forget_turn();    // the last one; false: there is none
  bool has_answer() const { return !turns_.empty() && !turns_.back().tokens.empty(); }

  // Makes the answer to the last question, or what follows the answer so far, what is requested. Leaves out the oldest turns, for
  // good, while prompt and `reserve` tokens exceed the context. Throws ContextFull if the last turn alone does.
  void prepare(Request& request, int reserve);

  // [{"role": "user", "content": "..."}, ...], those left out included. from_json throws std::invalid_argument, and then nothing
  // changes.
  std::string to_json() const;
  void from_json(const std::string& json);

 private:
  struct Turn {
    std::string question, answer;
    std::vector<Token> tokens;  // of the answer
  };
  std::vector<Token> prompt() const;

  const Generator* generator_;
  std::string system_;
  std::vector<Turn> turns_;
  std::size_t left_out_ = 0;
};

}  // namespace specdec::cli
