// A conversation with a model: its messages, and the prompt of the next answer, which must fit into the context.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/generator.h"

namespace specdec::cli {

class ChatConversation {
 public:
  // Without a template, messages are concatenated as plain text. Throws ModelError if the template cannot be used.
  ChatConversation(const Generator& generator, const std::string& system);

  bool has_template() const { return generator_->chat().has_template(); }
  bool is_empty() const { return turns_.empty(); }
  std::size_t num_turns() const { return turns_.size(); }
  std::size_t num_left_out() const { return left_out_; }  // turns
  // What the context would hold of it now, without another question: never more than the context's tokens.
  struct Use {
    std::size_t tokens, turns;
  };
  Use use() const;  // no turns: the last one alone is too long

  void clear();
  void set_system(const std::string& system);  // throws Error if the template cannot take it; nothing changes then
  const std::string& system() const { return system_; }
  const std::string& question() const { return turns_.back().question; }

  struct Answer {
    std::string text;
    std::vector<Token> tokens;
    bool is_complete = false;  // the model ended the answer

    bool is_empty() const { return tokens.empty(); }
  };
  // The last turn.
  void ask(const std::string& question, PictureFiles pictures = {});
  void add_to_answer(const Answer& more);
  bool has_answer() const { return !turns_.empty() && !turns_.back().answer.is_empty(); }
  const Answer& answer() const { return turns_.back().answer; }
  void set_answer(const Answer& answer) { turns_.back().answer = answer; }
  bool forget_turn();  // false: there is none

  // Sets the request's prompt for the answer to the last question, or for the continuation of the answer so far. If the
  // prompt and `reserve` tokens exceed the context, the oldest turns are left out permanently until the prompt takes
  // half of it. Throws ContextFull if the last turn alone exceeds the context; nothing changes then.
  void prepare(Request& request, int reserve);

  // [{"role": "user", "content": "..."}, ...], including turns that were left out. If from_json throws
  // std::invalid_argument, nothing changes.
  std::string to_json() const;
  void from_json(const std::string& json);

 private:
  struct Turn {
    std::string question;
    Answer answer;
    PictureFiles pictures;  // before the question
  };
  struct Fit {
    Text text;
    std::size_t left_out;
  };
  Fit fit(std::size_t reserve) const;
  Text prompt(std::size_t left_out) const;
  void check_template();

  const Generator* generator_;
  std::string system_;
  std::vector<Turn> turns_;
  std::size_t left_out_ = 0;
};

}  // namespace specdec::cli
