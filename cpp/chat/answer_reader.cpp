#include "chat/answer_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "chat/gemma_arguments.h"
#include "chat/json_calls.h"
#include "chat/marks.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* fence = "```";
constexpr std::size_t longest_header = 1024, longest_mention = 256, longest_id = 256;
const std::string start_mark = "<|start|>", channel_mark = "<|channel|>", message_mark = "<|message|>",
                  constrain_mark = "<|constrain|>";
const std::vector<std::string> message_ends = {"<|end|>", "<|call|>", "<|return|>", "<|eom|>", "<|eot|>"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// The earliest of these marks from a byte on; the longest of several that begin at one byte.
struct Place {
  std::size_t at = std::string::npos, size = 0;
};
Place find_first(const std::string& text, std::size_t from, const std::vector<std::string>& marks) {
  Place first;
  for (const std::string& mark : marks) {
    const std::size_t at = text.find(mark, from);
    if (at < first.at || (at == first.at && at != std::string::npos && mark.size() > first.size))
      first = {at, mark.size()};
  }
  return first;
}

// Whether one of these marks begins at a byte.
Found any_at(const std::string& text, std::size_t at, const std::vector<std::string>& marks) {
  Found found = Found::no;
  for (const std::string& mark : marks) {
    const Found one = mark_at(text, at, mark);
    if (one == Found::yes) return one;
    if (one == Found::more) found = one;
  }
  return found;
}

}  // namespace

AnswerReader::AnswerReader(std::shared_ptr<const AnswerForm> form) : form_(std::move(form)) {
  const CallForm& calls = form_->calls;
  if (calls.shape == CallShape::other) starts_ = calls.starts;
  else starts_ = calls.openings;
  // All openings may be missing if the next part is as clear.
  if (!calls.head.empty() && calls.head.front().kind == HeadPart::literal && calls.head.front().text.size() > 4)
    add_once(starts_, calls.head.front().text);
  stops_ = form_->reasoning_ends;
  for (const std::string& mark : starts_) add_once(stops_, mark);
  for (const std::string& mark : form_->content.begins) add_once(stops_, mark);
  text_marks_ = starts_;
  for (const std::string& mark : form_->content.ends) add_once(text_marks_, mark);
  if (form_->may_reason_later) add_once(text_marks_, form_->reasoning_begin);
  if (form_->has_messages) {
    for (const std::string& mark : message_ends) add_once(text_marks_, mark);
    add_once(text_marks_, start_mark);
    add_once(text_marks_, channel_mark);
  }
}

void AnswerReader::leave_out_begun() {
  left_out_ = text_.size();
  output_.content.clear();
  output_.reasoning_content.clear();
}

void AnswerReader::add(const std::string& text, AnswerEnd end) {
  text_ += text;
  end_ = end;
  num_bytes_read_ += text.size();
  while (step() == Step::again) {
  }
}

AnswerReader::Step AnswerReader::step() {
  switch (phase_) {
    case Phase::begin:
      return begin();
    case Phase::header:
      return header();
    case Phase::reasoning:
      return reasoning();
    case Phase::text:
      return text_part();
    case Phase::json_arguments:
      return json_arguments();
    case Phase::key:
      return key();
    case Phase::text_value:
      return text_value();
    case Phase::value:
      return value();
    case Phase::gemma:
      return gemma();
    case Phase::tail:
      return tail();
    case Phase::over:
      break;
  }
  at_ = text_.size();
  return Step::wait;
}

// Gives out the text up to `end`, which may lie before at_.
void AnswerReader::emit(std::string ChatOutput::* part, std::size_t end) {
  const std::size_t begin = std::max(at_, left_out_);
  if (begin < end) {
    output_.*part += text_.substr(begin, end - begin);
    if (part == &ChatOutput::content) has_text_ = true;
  }
  at_ = std::max(at_, end);
}

// The same without the white space before `end`.
void AnswerReader::emit_before(std::string ChatOutput::* part, std::size_t end) {
  while (end > at_ && is_blank(text_[end - 1])) --end;
  emit(part, end);
}

// White space that the content would begin with is held back: it is none if a call follows.
void AnswerReader::emit_text(std::size_t end) {
  emit_before(part_, end);
  if (has_text_ || part_ != &ChatOutput::content) emit(part_, end);
}

// What begins at `since` is undecided: it is looked at again when it has grown by 1/64, so that the work stays in
// proportion to the text.
bool AnswerReader::waits_for_more(std::size_t since) {
  num_bytes_read_ += text_.size() - since;
  retry_ = text_.size() + 1 + (text_.size() - since) / 64;
  return !has_ended();
}

// Where the text ends with the beginning of a mark.
std::size_t AnswerReader::begin_of_partial(const std::vector<std::string>& marks) const {
  std::size_t begin = text_.size();
  for (const std::string& mark : marks) {
    const std::size_t longest = std::min(mark.size() - 1, text_.size() - at_);
    for (std::size_t size = longest; size > text_.size() - begin; --size) {
      if (text_.compare(text_.size() - size, size, mark, 0, size) == 0) begin = text_.size() - size;
    }
  }
  return begin;
}

AnswerReader::Step AnswerReader::begin() {
  const std::size_t first = skip_blank(text_, 0);
  if (first == text_.size() && !has_ended()) return Step::wait;
  if (form_->has_messages) {
    phase_ = Phase::header;
    return Step::again;
  }
  if (!form_->reasoning_begin.empty()) {
    const Found mark = mark_at(text_, first, form_->reasoning_begin);
    if (mark == Found::more && !has_ended()) return Step::wait;
    if (mark == Found::yes || form_->is_reasoning_open) {
      at_ = mark == Found::yes ? first + form_->reasoning_begin.size() : 0;
      phase_ = Phase::reasoning;
      drops_blank_ = true;
      return Step::again;
    }
  }
  if (form_->calls.begins_answer) {
    const Found call = read_call(first, true);
    if (call == Found::yes) return Step::again;
    if (call == Found::more && !has_ended()) return Step::wait;
  }
  phase_ = Phase::text;
  return Step::again;
}

AnswerReader::Step AnswerReader::reasoning() {
  constexpr auto part = &ChatOutput::reasoning_content;
  if (drops_blank_) {
    at_ = skip_blank(text_, at_);
    if (at_ == text_.size() && !has_ended()) return Step::wait;
    drops_blank_ = false;
  }
  const std::size_t from = std::max(at_, seen_);
  const Place stop = find_first(text_, from, stops_);
  if (stop.at == std::string::npos) {
    if (has_ended()) {
      emit(part, text_.size());
      phase_ = Phase::over;
      return Step::wait;
    }
    const std::size_t held = begin_of_partial(stops_);
    emit_before(part, held);
    seen_ = held;
    return Step::wait;
  }
  emit_before(part, stop.at);
  const auto is = [&](const std::vector<std::string>& marks) {
    return any_at(text_.substr(0, stop.at + stop.size), stop.at, marks) == Found::yes;
  };
  if (is(form_->reasoning_ends) || is(form_->content.begins)) {
    at_ = is(form_->reasoning_ends) ? stop.at + stop.size : stop.at;
    phase_ = Phase::text;
    drops_blank_ = true;
    seen_ = retry_ = 0;
    return Step::again;
  }
  // The mark of a call: a thought about calls if the reasoning ends later, else perhaps a call. A model may forget to
  // close its reasoning.
  const bool is_thought = find_first(text_, stop.at, form_->reasoning_ends).at != std::string::npos;
  if (!is_thought && !has_ended() && text_.size() < retry_) return Step::wait;
  if (!is_thought && head_at(stop.at, false).found != Found::no) {
    if (waits_for_more(stop.at)) return Step::wait;
    if (is_whole() && reads_call_in_reasoning(stop.at)) return Step::again;
  }
  emit(part, stop.at + 1);
  seen_ = at_;
  retry_ = 0;
  return Step::again;
}

// Reads calls that nothing but white space follows.
bool AnswerReader::reads_call_in_reasoning(std::size_t at) {
  AnswerReader other = *this;
  other.phase_ = Phase::text;
  other.part_ = &ChatOutput::content;
  other.at_ = at;
  other.seen_ = other.retry_ = 0;
  while (other.step() == Step::again) {
  }
  const bool has_new = other.output_.tool_calls.size() > output_.tool_calls.size();
  if (!has_new || other.output_.content != output_.content ||
      other.output_.reasoning_content != output_.reasoning_content)
    return false;
  if (!Json::accept(other.output_.tool_calls.back().arguments)) return false;
  *this = std::move(other);
  return true;
}

AnswerReader::Mark AnswerReader::next_mark() const {
  const std::size_t from = std::max(at_, seen_);
  Mark first;
  first.at = std::string::npos;
  const auto take = [&](Mark::Kind kind, Place place) {
    if (place.at < first.at) first = {kind, place.at, place.size};
  };
  const bool is_content = part_ == &ChatOutput::content;
  const bool may_call = is_content && form_->calls.shape != CallShape::none;
  const std::size_t beginning = has_text_ ? std::string::npos : skip_blank(text_, at_);
  if (beginning < text_.size() && beginning >= from && is_content) {
    for (const std::string& mark : form_->content.begins) {
      if (mark_at(text_, beginning, mark) != Found::no) take(Mark::content_begin, {beginning, mark.size()});
    }
  }
  if (may_call) take(Mark::call, find_first(text_, from, starts_));
  if (may_call && form_->calls.shape == CallShape::json_object && starts_.empty()) {  // an object on a line of its own
    for (std::size_t at = text_.find('{', from); at < first.at; at = text_.find('{', at + 1)) {
      const std::size_t before = at == 0 ? std::string::npos : text_.find_last_not_of(" \t", at - 1);
      const bool is_first = before == std::string::npos || before < left_out_ || text_[before] == '\n' || before < at_;
      if (is_first) take(Mark::call, {at, 1});
    }
  }
  if (form_->may_reason_later && is_content)
    take(Mark::later_reasoning, {text_.find(form_->reasoning_begin, from), form_->reasoning_begin.size()});
  if (is_content) take(Mark::content_end, find_first(text_, from, form_->content.ends));
  if (form_->has_messages) {
    take(Mark::message, find_first(text_, from, message_ends));
    take(Mark::message, find_first(text_, from, {start_mark, channel_mark}));
  }
  if (is_content && form_->reads_json_calls && output_.tool_calls.empty()) {
    take(Mark::json, find_first(text_, from, json_call_marks()));
    const bool is_bare =
        beginning < text_.size() && beginning >= from && (text_[beginning] == '{' || text_[beginning] == '[');
    if (is_bare) take(Mark::json, {beginning, 1});
  }
  return first;
}

AnswerReader::Step AnswerReader::text_part() {
  if (drops_blank_) {
    at_ = skip_blank(text_, at_);
    if (at_ == text_.size() && !has_ended()) return Step::wait;
    drops_blank_ = false;
  }
  const Mark mark = next_mark();
  if (mark.kind == Mark::none) {
    if (has_ended()) {
      emit(part_, text_.size());
      phase_ = Phase::over;
      return Step::wait;
    }
    std::size_t held = begin_of_partial(text_marks_);
    if (form_->reads_json_calls && output_.tool_calls.empty())
      held = std::min(held, begin_of_partial(json_call_marks()));
    emit_text(held);
    seen_ = held;
    return Step::wait;
  }
  emit_text(mark.at);
  if (!has_ended() && text_.size() < retry_) return Step::wait;
  if (!has_ended() && begin_of_partial(text_marks_) <= mark.at)
    return Step::wait;  // perhaps a longer mark: [TOOL_CALLS]
  const Found found = read_mark(mark);
  if (found == Found::more && waits_for_more(mark.at)) return Step::wait;
  retry_ = 0;
  if (found == Found::yes) {
    seen_ = 0;
    return Step::again;
  }
  emit(part_, mark.at + (mark.kind == Mark::json && text_[mark.at] == '`' ? mark.size : 1));
  seen_ = at_;
  return Step::again;
}

Found AnswerReader::read_mark(const Mark& mark) {
  switch (mark.kind) {
    case Mark::call: {
      const Found found = read_call(mark.at, false);
      if (found != Found::no || !form_->reads_json_calls || !output_.tool_calls.empty()) return found;
      return read_json_calls(mark.at);
    }
    case Mark::json:
      return read_json_calls(mark.at);
    case Mark::later_reasoning:
      return read_later_reasoning(mark);
    case Mark::content_begin: {
      const Found found = any_at(text_, mark.at, form_->content.begins);
      if (found != Found::yes) return found;
      at_ = mark.at + mark.size;
      has_text_ = true;
      return found;
    }
    case Mark::content_end:
      return read_content_end(mark);
    case Mark::message:
      return read_message(mark);
    case Mark::none:
      break;
  }
  return Found::no;
}

// The end of the content is followed by calls, by another such mark or by nothing.
Found AnswerReader::read_content_end(const Mark& mark) {
  const std::size_t next = skip_blank(text_, mark.at + mark.size);
  Found found = next == text_.size() ? (has_ended() ? Found::yes : Found::more) : any_at(text_, next, text_marks_);
  if (found == Found::more && has_ended()) found = Found::no;
  if (found != Found::yes) return found;
  at_ = mark.at + mark.size;
  drops_blank_ = true;
  return found;
}

Found AnswerReader::read_later_reasoning(const Mark& mark) {
  const Place end = find_first(text_, mark.at + mark.size, form_->reasoning_ends);
  if (end.at == std::string::npos) return Found::more;
  at_ = std::min(skip_blank(text_, mark.at + mark.size), end.at);
  emit_before(&ChatOutput::reasoning_content, end.at);
  at_ = end.at + end.size;
  drops_blank_ = true;
  return Found::yes;
}

// A message ends where another begins or the answer ends.
Found AnswerReader::read_message(const Mark& mark) {
  const bool is_end = any_at(text_, mark.at, message_ends) == Found::yes;
  const std::size_t next = is_end ? skip_blank(text_, mark.at + mark.size) : mark.at;
  if (is_end && next == text_.size()) {
    if (!has_ended()) return Found::more;
    at_ = next;
    return Found::yes;
  }
  if (is_end) {
    const Found begins = any_at(text_, next, {start_mark, channel_mark});
    if (begins != Found::yes) return begins;
    if (mark_at(text_, next, start_mark) == Found::yes) {
      const Found role = mark_at(text_, next + start_mark.size(), "assistant");
      if (role != Found::yes) return role;
    }
  } else {
    const std::size_t message = text_.find(message_mark, next);
    const std::size_t stop = std::min(find_first(text_, next, message_ends).at, text_.find('\n', next));
    if (message == std::string::npos || message > stop || message - next > longest_mention) {
      const bool is_open = stop == std::string::npos && text_.size() - next < longest_mention;
      return is_open && message == std::string::npos ? Found::more : Found::no;
    }
  }
  at_ = next;
  phase_ = Phase::header;
  return Found::yes;
}

AnswerReader::Step AnswerReader::header() {
  const std::size_t first = skip_blank(text_, at_);
  if (first == text_.size() && !has_ended()) return Step::wait;
  const Found begins = any_at(text_, first, {start_mark, channel_mark, message_mark, "to="});
  if (begins == Found::more && !has_ended()) return Step::wait;
  part_ = &ChatOutput::content;
  if (begins != Found::yes) {
    phase_ = Phase::text;
    return Step::again;
  }
  const std::size_t message = text_.find(message_mark, first);
  const std::size_t end = find_first(text_, first, message_ends).at;
  if (message != std::string::npos && message < end && message - first <= longest_header) {
    read_header(message);
    return Step::again;
  }
  if (end != std::string::npos || text_.size() - first > longest_header)
    return read_odd_header(std::min(end, text_.size()));
  if (!has_ended()) return Step::wait;
  return read_odd_header(text_.size());
}

// Reads the header up to `end`. Words in it that say nothing about the message are content.
void AnswerReader::read_header(std::size_t end) {
  std::string channel, name;
  bool has_recipient = false, is_thought = false;
  const auto word_at = [&](std::size_t at) {
    std::size_t last = at;
    while (last < end && is_word(text_[last])) ++last;
    return text_.substr(at, last - at);
  };
  const auto skip_word = [&](std::initializer_list<const char*> words) {
    std::string word = word_at(at_);
    if (std::find(words.begin(), words.end(), word) == words.end()) return std::string();
    at_ += word.size();
    return word;
  };
  while (at_ < end) {
    const auto is = [&](const std::string& mark) { return text_.compare(at_, mark.size(), mark) == 0; };
    if (is_blank(text_[at_])) {
      ++at_;
    } else if (is(start_mark)) {
      at_ += start_mark.size();
      (void)skip_word({"assistant"});
    } else if (is(channel_mark)) {
      at_ += channel_mark.size();
      const std::string word = skip_word({"analysis", "commentary", "final"});
      if (!word.empty()) channel = word;
    } else if (is(constrain_mark)) {
      at_ += constrain_mark.size();
      at_ += word_at(at_).size();
    } else if (is("to=")) {
      std::size_t last = std::min(text_.find_first_of(" \t\r\n<", at_), end);
      std::string recipient = text_.substr(at_ + 3, last - at_ - 3);
      const std::string functions = "functions.";
      const std::string function =
          recipient.compare(0, functions.size(), functions) == 0 ? recipient.substr(functions.size()) : "";
      has_recipient = true;
      if (form_->functions.count(function) != 0) {
        name = function;
      } else if (function.size() > 4 && function.compare(function.size() - 4, 4, "json") == 0 &&
                 form_->functions.count(function.substr(0, function.size() - 4)) != 0) {
        name = function.substr(0, function.size() - 4);
      } else if (recipient == "self") {
        is_thought = true;
      } else if (recipient != "user" && recipient != "assistant" && form_->calls.shape == CallShape::none) {
        emit(&ChatOutput::content, last);
      }
      at_ = last;
    } else if (has_recipient && !skip_word({"json", "code", "text"}).empty()) {
    } else {
      std::size_t last = at_ + 1;
      while (last < end && text_[last] != '<') ++last;
      emit(&ChatOutput::content, last);
    }
  }
  if (text_.compare(end, message_mark.size(), message_mark) != 0) return;
  at_ = end + message_mark.size();
  seen_ = 0;
  phase_ = Phase::text;
  part_ =
      is_thought || (channel == "analysis" && !has_recipient) ? &ChatOutput::reasoning_content : &ChatOutput::content;
  if (name.empty() || !begin_call("", name)) return;
  phase_ = Phase::json_arguments;
}

// A header without a message, up to `end`.
AnswerReader::Step AnswerReader::read_odd_header(std::size_t end) {
  const std::size_t content = output_.content.size(), first = at_;
  read_header(end);
  if (output_.content.size() == content && end_ != AnswerEnd::cut) {  // only known words
    at_ = first;
    while (at_ < end) {
      const Place mark = find_first(text_, at_, {start_mark, channel_mark, constrain_mark});
      emit(&ChatOutput::content, std::min(mark.at, end));
      at_ = mark.at < end ? mark.at + mark.size : end;
    }
  }
  seen_ = 0;
  phase_ = Phase::text;
  return Step::again;
}

Found AnswerReader::read_json_calls(std::size_t at) {
  JsonCallsAt calls = json_calls_at(text_, at, form_->functions, has_ended());
  if (calls.found != Found::yes) return calls.found;
  add_calls(calls.calls);
  at_ = text_.size();
  return Found::yes;
}

void AnswerReader::add_calls(const std::vector<ToolCall>& calls) {
  for (const ToolCall& call : calls) {
    if (!begin_call(call.id, call.name)) return;
    add_arguments(call.arguments);
  }
}

bool AnswerReader::begin_call(const std::string& id, const std::string& name) {
  if (!form_->is_parallel && !output_.tool_calls.empty()) {
    output_.is_over = true;
    phase_ = Phase::over;
    return false;
  }
  output_.tool_calls.push_back({id, name, ""});
  depth_ = 0;
  in_string_ = is_escaped_ = is_raw_ = is_object_open_ = is_in_list_ = false;
  num_arguments_ = closing_ = 0;
  seen_ = retry_ = 0;
  return true;
}

void AnswerReader::add_arguments(const std::string& text) { output_.tool_calls.back().arguments += text; }

// is_continued: the section of calls is open, so openings may be missing.
Found AnswerReader::read_call(std::size_t at, bool is_continued) {
  if (form_->calls.shape == CallShape::other) {
    AnswerForm::OtherCalls other = form_->read_other(text_, at, has_ended());
    if (other.reading == AnswerForm::Reading::none) return Found::no;
    if (other.reading == AnswerForm::Reading::unfinished) return Found::more;
    add_calls(other.calls);
    at_ = other.end;
    if (phase_ != Phase::over) phase_ = Phase::tail;
    return Found::yes;
  }
  const Head head = head_at(at, is_continued);
  if (head.found != Found::yes) return head.found;
  const bool is_in_list = head.is_in_list || (is_continued && is_in_list_);
  if (!begin_call(head.id, head.name)) return Found::yes;
  at_ = head.end;
  is_in_list_ = is_in_list;
  if (head.is_whole) {
    add_arguments(head.arguments);
    phase_ = Phase::tail;
  } else if (form_->calls.shape == CallShape::tags) {
    add_arguments("{");
    phase_ = Phase::key;
  } else {
    is_object_open_ = form_->calls.shape == CallShape::json_object;
    phase_ = form_->calls.shape == CallShape::gemma ? Phase::gemma : Phase::json_arguments;
  }
  return Found::yes;
}

AnswerReader::Head AnswerReader::head_at(std::size_t at, bool is_continued) const {
  std::size_t end = at;
  const Found opened = openings_at(at, end);
  Head head;
  head.found = opened;
  if (opened == Found::more) return head;
  const bool is_object = form_->calls.shape == CallShape::json_object;
  if (opened == Found::no && is_object && !is_continued && !form_->calls.openings.empty()) return head;
  return is_object ? head_of_object(end) : head_of_parts(end);
}

Found AnswerReader::openings_at(std::size_t at, std::size_t& end) const {
  Found found = Found::no;
  end = at;
  for (const std::string& opening : form_->calls.openings) {
    const std::size_t next = skip_blank(text_, end);
    const Found one = mark_at(text_, next, opening);
    if (one == Found::more) return one;
    if (one == Found::no) continue;
    end = next + opening.size();
    found = Found::yes;
  }
  return found;
}

// The longest name of a function that stands there.
Found AnswerReader::name_at(std::size_t at, std::string& name) const {
  Found found = Found::no;
  for (const auto& [one, types] : form_->functions) {
    const Found match = mark_at(text_, at, one);
    if (match == Found::more) return match;
    if (match == Found::no || one.size() < name.size()) continue;
    name = one;
    found = Found::yes;
  }
  return found;
}

// Matches parts one after another, with white space between them. Sets head.end, id and name.
Found AnswerReader::parts_at(const std::vector<HeadPart>& parts, std::size_t at, Head& head) const {
  std::size_t end = at, id_begin = std::string::npos, id_end = 0;
  bool skips_optional = false;
  for (const HeadPart& part : parts) {
    if (!part.is_optional) skips_optional = false;
    if (skips_optional) continue;
    const std::size_t begin = skip_blank(text_, end);
    Found found = Found::yes;
    std::size_t next = begin;
    if (part.kind == HeadPart::literal) {
      found = mark_at(text_, begin, part.text);
      next = begin + part.text.size();
    } else if (part.kind == HeadPart::name) {
      head.name.clear();
      found = name_at(begin, head.name);
      next = begin + head.name.size();
      if (found == Found::yes && next == text_.size()) found = Found::more;
      if (found == Found::yes && is_word(text_[next]) && &part == &parts.back()) found = Found::no;
    } else if (part.kind == HeadPart::until) {
      next = text_.find(part.text, begin);
      const bool is_long = std::min(next, text_.size()) - begin > longest_id;
      found = is_long ? Found::no : next == std::string::npos ? Found::more : Found::yes;
    } else {
      while (next < text_.size() && is_word(text_[next])) ++next;
      found = next == text_.size() ? Found::more : next == begin ? Found::no : Found::yes;
    }
    if (found == Found::no && part.is_optional) {
      skips_optional = true;
      continue;
    }
    if (found != Found::yes) return found;
    if (part.is_id) {
      id_begin = std::min(id_begin, begin);
      id_end = next;
    }
    end = next;
  }
  if (id_begin != std::string::npos) head.id = text_.substr(id_begin, id_end - id_begin);
  head.end = end;
  return Found::yes;
}

// Whether arguments, or the end of a call without any, follow.
Found AnswerReader::arguments_at(std::size_t at) const {
  if (form_->calls.shape == CallShape::tags) {
    const Found key = mark_at(text_, at, form_->calls.key_open);
    if (key == Found::yes) return key;
    const Found closing = any_at(text_, at, form_->calls.closings);
    return closing == Found::no ? key : closing;
  }
  if (at == text_.size()) return Found::more;
  return text_[at] == '{' ? Found::yes : Found::no;
}

AnswerReader::Head AnswerReader::head_of_parts(std::size_t at) const {
  Head head;
  head.found = parts_at(form_->calls.head, at, head);
  if (head.found != Found::yes) return head;
  const std::size_t next = skip_blank(text_, head.end);
  head.found = arguments_at(next);
  head.end = next;
  return head;
}

// {"name": "f", "arguments": {: found where the arguments begin. With the name behind them, or other members between,
// where the object ends.
AnswerReader::Head AnswerReader::head_of_object(std::size_t at) const {
  Head head;
  std::size_t next = skip_blank(text_, at);
  if (next < text_.size() && text_[next] == '[') {
    head.is_in_list = true;
    next = skip_blank(text_, next + 1);
  }
  const JsonCallHead object = json_call_head(text_, next, form_->functions, form_->calls.name_key,
                                             form_->calls.arguments_key, form_->calls.id_key);
  head.found = object.found;
  head.end = object.end;
  head.id = object.id;
  head.name = object.name;
  head.arguments = object.arguments;
  head.is_whole = object.is_whole;
  return head;
}

// The first closing from number `first` on that stands there.
Found AnswerReader::closing_at(std::size_t at, std::size_t first, std::size_t& end, std::size_t& which) const {
  const std::vector<std::string>& closings =
      form_->has_messages && form_->calls.closings.empty() ? message_ends : form_->calls.closings;
  Found found = Found::no;
  for (which = first; which < closings.size(); ++which) {
    const Found one = mark_at(text_, at, closings[which]);
    end = at + closings[which].size();
    if (one == Found::yes) return one;
    if (one == Found::more) found = one;
  }
  return found;
}

// The text of the arguments as it is. They end with their last bracket, or before a closing that is not in a string.
AnswerReader::Step AnswerReader::json_arguments() {
  const auto give = [&](std::size_t end) {
    add_arguments(text_.substr(at_, end - at_));
    at_ = end;
  };
  if (depth_ == 0 && !is_raw_) {
    at_ = skip_blank(text_, at_);
    if (at_ == text_.size()) {
      if (has_ended()) phase_ = Phase::over;
      return Step::wait;
    }
    is_raw_ = text_[at_] != '{' && text_[at_] != '[';
  }
  static const std::string json_characters = "{}[]:,.+- \t\r\n";
  for (std::size_t i = at_; i < text_.size(); ++i) {
    const char c = text_[i];
    if (in_string_) {
      if (is_escaped_) is_escaped_ = false;
      else if (c == '\\') is_escaped_ = true;
      else if (c == '"') in_string_ = false;
      continue;
    }
    if (c == '"' && !is_raw_) {
      in_string_ = true;
    } else if (!is_raw_ && (c == '{' || c == '[')) {
      ++depth_;
    } else if (!is_raw_ && (c == '}' || c == ']')) {
      if (--depth_ > 0) continue;
      give(i + 1);
      phase_ = Phase::tail;
      return Step::again;
    } else if (json_characters.find(c) == std::string::npos && std::isalnum(static_cast<unsigned char>(c)) == 0) {
      std::size_t end = 0, which = 0;
      const Found closing = closing_at(i, 0, end, which);
      if (closing == Found::no || (closing == Found::more && is_whole())) continue;
      give(i);
      if (closing == Found::more && !has_ended()) return Step::wait;
      is_object_open_ = false;
      phase_ = Phase::tail;
      return Step::again;
    }
  }
  give(text_.size());
  if (has_ended()) phase_ = Phase::over;
  return Step::wait;
}

AnswerReader::Step AnswerReader::key() {
  const CallForm& form = form_->calls;
  const std::size_t next = skip_blank(text_, at_);
  const Found opens = mark_at(text_, next, form.key_open);
  Found found = opens;
  if (opens == Found::yes) {
    const std::size_t begin = next + form.key_open.size();
    const HeadPart& first = form.key_close.front();
    const std::size_t end = text_.find(first.text, begin);
    const bool is_long = std::min(end, text_.size()) - begin > longest_id;
    Head rest;
    found = is_long ? Found::no : end == std::string::npos ? Found::more : parts_at(form.key_close, end, rest);
    if (found == Found::yes) {
      const std::string name = text_.substr(begin, end - begin);
      const auto& parameters = form_->functions.at(output_.tool_calls.back().name);
      const auto known = parameters.find(name);
      types_ = known == parameters.end() ? ArgumentTypes() : known->second;
      if (form.says_if_string) {
        const bool is_string = text_.substr(end, rest.end - end).find("\"true\"") != std::string::npos;
        types_ = {is_string, !is_string, !is_string, !is_string, !is_string, !is_string, !is_string};
      }
      add_arguments((num_arguments_++ > 0 ? ",\"" : "\"") + json_escaped(name) + "\":");
      at_ = rest.end;
      drops_line_ = form.is_value_on_lines;
      if (types_.is_string_only()) add_arguments("\"");
      phase_ = types_.is_string_only() ? Phase::text_value : Phase::value;
      retry_ = 0;
      return Step::again;
    }
  }
  if (found == Found::more && !has_ended()) return Step::wait;
  std::size_t end = 0, which = 0;
  const Found closing = opens == Found::yes ? Found::no : closing_at(next, 0, end, which);
  if (closing == Found::more && !has_ended()) return Step::wait;
  const bool is_end =
      closing == Found::yes || next == text_.size() || (closing == Found::more && end_ == AnswerEnd::cut);
  if (is_end) {
    if (closing == Found::yes || is_whole()) add_arguments("}");
    at_ = next;
    phase_ = Phase::tail;
    return Step::again;
  }
  // Text where an argument should be.
  std::string first_bytes = form.key_open.substr(0, 1);
  for (const std::string& one : form.closings) first_bytes += one.substr(0, 1);
  at_ = next;
  emit(&ChatOutput::content, std::min(text_.find_first_of(first_bytes, next + 1), text_.size()));
  return Step::again;
}

// Where the value that begins at at_ ends: at the first close behind which the call goes on. close: where the close, or
// what may be one, begins. next: behind it.
Found AnswerReader::value_end(std::size_t& close, std::size_t& next) const {
  const CallForm& form = form_->calls;
  for (close = text_.find(form.value_close, at_); close != std::string::npos;
       close = text_.find(form.value_close, close + 1)) {
    next = close + form.value_close.size();
    const std::size_t after = skip_blank(text_, next);
    if (after == text_.size()) return has_ended() ? Found::yes : Found::more;
    std::size_t end = 0, which = 0;
    const Found key = mark_at(text_, after, form.key_open), closing = closing_at(after, 0, end, which);
    if (key == Found::yes || closing == Found::yes) return Found::yes;
    if (key == Found::more || closing == Found::more) return has_ended() ? Found::yes : Found::more;
  }
  close = begin_of_partial({form.value_close});
  return Found::no;
}

AnswerReader::Step AnswerReader::text_value() {
  if (drops_line_) {
    if (at_ == text_.size() && !has_ended()) return Step::wait;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    drops_line_ = false;
  }
  const CallForm& form = form_->calls;
  std::size_t close = 0, next = 0;
  const Found found = value_end(close, next);
  const auto give = [&](std::size_t end) {
    if (end <= at_) return;
    add_arguments(json_escaped(text_.data() + at_, text_.data() + end));
    at_ = end;
  };
  if (found == Found::no && has_ended()) {
    give(text_.size());
    if (is_whole()) add_arguments("\"}");
    phase_ = Phase::over;
    return Step::wait;
  }
  std::size_t end = close;
  const std::string& last = form.value_end;
  if (found == Found::yes) {
    if (!last.empty() && end >= at_ + last.size() && text_.compare(end - last.size(), last.size(), last) == 0)
      end -= last.size();
    if (form.is_value_on_lines && end > at_ && text_[end - 1] == '\n') --end;
    give(end);
    add_arguments("\"");
    at_ = next;
    phase_ = Phase::key;
    return Step::again;
  }
  const std::size_t kept = std::max<std::size_t>(last.size(), 1);  // may belong to the close
  give(end > at_ + kept ? end - kept : at_);
  return Step::wait;
}

AnswerReader::Step AnswerReader::value() {
  if (!has_ended() && text_.size() < retry_) return Step::wait;
  const CallForm& form = form_->calls;
  std::size_t close = 0, next = 0;
  const Found found = value_end(close, next);
  if (found != Found::yes && waits_for_more(at_)) return Step::wait;
  std::size_t begin = at_, end = found == Found::yes ? close : text_.size();
  const std::string& last = form.value_end;
  if (found == Found::yes && !last.empty() && end >= begin + last.size() &&
      text_.compare(end - last.size(), last.size(), last) == 0)
    end -= last.size();
  if (form.is_value_on_lines && begin < end && text_[begin] == '\n') ++begin;
  if (found == Found::yes && form.is_value_on_lines && begin < end && text_[end - 1] == '\n') --end;
  const std::string text = text_.substr(begin, end - begin);
  if (found == Found::yes) {
    add_arguments(argument_json(text, types_));
    at_ = next;
    phase_ = Phase::key;
    return Step::again;
  }
  if (is_whole()) add_arguments(argument_json(text, types_) + "}");
  else add_arguments(types_.string ? "\"" + json_escaped(text) : text);
  phase_ = Phase::over;
  return Step::wait;
}

AnswerReader::Step AnswerReader::gemma() {
  if (!has_ended() && text_.size() < retry_) return Step::wait;
  const GemmaArguments read = gemma_arguments(text_, at_, form_->calls.closings.front(), end_);
  std::string& arguments = output_.tool_calls.back().arguments;
  if (read.json.size() > arguments.size()) arguments = read.json;
  if (read.found != Found::yes && waits_for_more(at_)) return Step::wait;
  at_ = read.found == Found::yes ? read.end : text_.size();
  phase_ = read.found == Found::yes ? Phase::tail : Phase::over;
  return Step::again;
}

// What follows the arguments: the rest of an object, closings, further calls.
AnswerReader::Step AnswerReader::tail() {
  const std::size_t next = skip_blank(text_, at_);
  if (next == text_.size()) {
    if (!has_ended()) return Step::wait;
    at_ = next;
    phase_ = Phase::over;
    return Step::wait;
  }
  const char c = text_[next];
  if (is_object_open_ && c == '}') {
    is_object_open_ = false;
    at_ = next + 1;
    return Step::again;
  }
  if (is_object_open_ && c == ',') {
    const JsonMember member = json_member(text_, skip_blank(text_, next + 1));
    if (member.found == Found::more && !has_ended()) return Step::wait;
    const bool is_id = member.key == "id" || (!form_->calls.id_key.empty() && member.key == form_->calls.id_key) ||
                       member.key == "tool_call_id";
    if (member.found == Found::yes && (is_id || member.key == "type" || member.key == "index")) {
      if (is_id) output_.tool_calls.back().id = member.text(text_);
      at_ = member.end;
      return Step::again;
    }
  }
  if (is_in_list_ && !is_object_open_ && c == ']') {
    is_in_list_ = false;
    at_ = next + 1;
    return Step::again;
  }
  std::size_t end = 0, which = 0;
  const Found closing = closing_at(next, closing_, end, which);
  if (closing == Found::more && !has_ended()) return Step::wait;
  const bool has_closings = !form_->calls.closings.empty();
  if (closing == Found::yes && has_closings) {
    at_ = end;
    closing_ = which + 1;
    is_object_open_ = false;
    return Step::again;
  }
  if (closing == Found::more && end_ == AnswerEnd::cut) {  // cut within the mark
    at_ = text_.size();
    phase_ = Phase::over;
    return Step::wait;
  }
  const CallShape shape = form_->calls.shape;
  if (shape != CallShape::none && shape != CallShape::other) {
    const std::size_t call = c == ',' && shape == CallShape::json_object ? skip_blank(text_, next + 1) : next;
    const Found found = read_call(call, true);
    if (found == Found::yes) return Step::again;
    if (found == Found::more && waits_for_more(call)) return Step::wait;
  }
  if (closing == Found::yes) at_ = next;  // the end of a message
  part_ = &ChatOutput::content;
  phase_ = Phase::text;
  seen_ = retry_ = 0;
  return Step::again;
}

}  // namespace specdec
