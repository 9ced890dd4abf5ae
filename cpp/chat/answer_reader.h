// Reads an answer while a model writes it. One law: every byte is in the content, in the reasoning or in a call's
// arguments, except for marks that structure the answer, white space next to them, and what a call says besides its
// arguments. Nothing is given out before it is certain what it is, so the output only grows.
//
// Marks count only where their surroundings are as the template writes them. Elsewhere they are text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "chat/answer_form.h"
#include "chat/chat_output.h"
#include "chat/json_scan.h"

namespace specdec {

class AnswerReader {
 public:
  explicit AnswerReader(std::shared_ptr<const AnswerForm> form);

  void add(const std::string& text, AnswerEnd end);
  void leave_out_begun();  // what has been added so far is no part of the output

  const std::string& text() const { return text_; }
  const ChatOutput& output() const { return output_; }
  std::size_t num_bytes_read() const { return num_bytes_read_; }

 private:
  enum class Phase { begin, header, reasoning, text, json_arguments, key, text_value, value, gemma, tail, over };
  enum class Step { again, wait };

  // The beginning of a call up to its arguments.
  struct Head {
    Found found = Found::no;
    std::size_t end = 0;  // where the arguments begin, or the whole call ends
    std::string id, name;
    std::string arguments;  // of a whole call
    bool is_whole = false, is_in_list = false;
  };
  // What may not be text.
  struct Mark {
    enum Kind { none, call, json, later_reasoning, content_begin, content_end, message } kind = none;
    std::size_t at = 0, size = 0;
  };

  Step step();
  Step begin();
  Step header();
  Step reasoning();
  Step text_part();
  Step json_arguments();
  Step key();
  Step text_value();
  Step value();
  Step gemma();
  Step tail();

  bool has_ended() const { return end_ != AnswerEnd::none; }
  bool is_whole() const { return end_ == AnswerEnd::whole; }

  Mark next_mark() const;
  Found read_mark(const Mark& mark);
  Found read_content_end(const Mark& mark);
  Found read_later_reasoning(const Mark& mark);
  Found read_message(const Mark& mark);
  Found read_json_calls(std::size_t at);
  Found read_call(std::size_t at, bool is_continued);
  bool reads_call_in_reasoning(std::size_t at);
  void read_header(std::size_t end);
  Step read_odd_header(std::size_t end);

  Head head_at(std::size_t at, bool is_continued) const;
  Head head_of_parts(std::size_t at) const;
  Head head_of_object(std::size_t at) const;
  Found openings_at(std::size_t at, std::size_t& end) const;
  Found name_at(std::size_t at, std::string& name) const;
  Found arguments_at(std::size_t at) const;
  Found parts_at(const std::vector<HeadPart>& parts, std::size_t at, Head& head) const;
  Found closing_at(std::size_t at, std::size_t first, std::size_t& end, std::size_t& which) const;
  Found value_end(std::size_t& close, std::size_t& next) const;

  bool begin_call(const std::string& id, const std::string& name);
  void add_calls(const std::vector<ToolCall>& calls);
  void add_arguments(const std::string& text);
  void emit(std::string ChatOutput::* part, std::size_t end);
  void emit_before(std::string ChatOutput::* part, std::size_t end);
  void emit_text(std::size_t end);
  bool waits_for_more(std::size_t since);
  std::size_t begin_of_partial(const std::vector<std::string>& marks) const;

  std::shared_ptr<const AnswerForm> form_;
  std::vector<std::string> starts_;      // of calls
  std::vector<std::string> stops_;       // of reasoning: its ends, calls and marks of content
  std::vector<std::string> text_marks_;  // what next_mark() looks for

  std::string text_;
  AnswerEnd end_ = AnswerEnd::none;
  ChatOutput output_;
  std::size_t num_bytes_read_ = 0;

  Phase phase_ = Phase::begin;
  std::size_t at_ = 0;        // everything before it is in the output or is structure
  std::size_t left_out_ = 0;  // bytes at the beginning that are no part of the output
  std::size_t seen_ = 0;      // no mark before it
  std::size_t retry_ = 0;     // the size of the text at which what is undecided is looked at again
  std::string ChatOutput::* part_ = &ChatOutput::content;  // that text belongs to
  bool drops_blank_ = false;                               // a mark stands before at_
  bool has_text_ = false;                                  // the content has begun

  // Of the latest call.
  int depth_ = 0;
  bool in_string_ = false, is_escaped_ = false, is_raw_ = false;
  bool is_object_open_ = false, is_in_list_ = false;
  std::size_t num_arguments_ = 0;
  std::size_t closing_ = 0;  // the first closing that may follow
  ArgumentTypes types_;
  bool drops_line_ = false;
};

}  // namespace specdec
