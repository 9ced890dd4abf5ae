#include "chat/gemma_arguments.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace specdec {
namespace {

const std::string quote = "<|\"|>";

class Transcription {
 public:
  Transcription(const std::string& text, std::size_t at, const std::string& closing, AnswerEnd end)
      : text_(text), at_(at), closing_(closing), end_(end) {}

  GemmaArguments read() {
    open();
    while (!open_.empty()) {
      at_ = skip_blank(text_, at_);
      if (at_ == text_.size()) return unfinished();
      const Found closes = mark_at(text_, at_, closing_);
      if (closes == Found::more && end_ == AnswerEnd::none) return unfinished();
      if (closes == Found::yes) {
        close_all();
        break;
      }
      if (!step()) return unfinished();
    }
    return {Found::yes, at_, std::move(json_)};
  }

 private:
  void open() {
    open_.push_back(text_[at_]);
    json_ += text_[at_++];
    is_first_ = true;
  }

  void close_all() {
    for (; !open_.empty(); open_.pop_back()) json_ += open_.back() == '{' ? '}' : ']';
  }

  // false: the text ends within the next part.
  bool step() {
    const char c = text_[at_];
    if (c == '}' || c == ']') {
      json_ += open_.back() == '{' ? '}' : ']';
      open_.pop_back();
      ++at_;
      is_first_ = false;
      return true;
    }
    if (c == ',') {
      ++at_;
      return true;
    }
    if (open_.back() == '{' && !key()) return false;
    if (open_.back() == '[') {
      if (!is_first_) json_ += ',';
      is_first_ = false;
    }
    return value();
  }

  bool key() {
    std::string key;
    std::size_t end = at_;
    if (const Found quoted = mark_at(text_, at_, quote); quoted != Found::no) {
      const std::size_t begin = at_ + quote.size();
      const std::size_t close = quoted == Found::yes ? text_.find(quote, begin) : std::string::npos;
      if (close == std::string::npos) return false;
      key = json_escaped(text_.substr(begin, close - begin));
      end = close + quote.size();
    } else if (const Extent string = json_string_at(text_, at_); string.found != Found::no) {
      if (string.found == Found::more) return false;
      key = text_.substr(at_ + 1, string.end - at_ - 2);
      end = string.end;
    } else {
      end = std::min(text_.find_first_of(":,{}[]", at_), text_.find(closing_, at_));
      if (end == std::string::npos) return false;
      const std::size_t last = text_.find_last_not_of(" \t\r\n", end == at_ ? at_ : end - 1);
      key = json_escaped(text_.substr(at_, last + 1 - at_));
      if (end == at_) ++end;  // a stray character
    }
    const std::size_t colon = skip_blank(text_, end);
    if (colon == text_.size()) return false;
    json_ += (is_first_ ? "\"" : ",\"") + key + "\":";
    is_first_ = false;
    at_ = text_[colon] == ':' ? skip_blank(text_, colon + 1) : end;
    return true;
  }

  bool value() {
    if (at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      open();
      return true;
    }
    const Found quoted = mark_at(text_, at_, quote);
    if (quoted == Found::yes) return string();
    if (quoted == Found::more) return false;
    if (c == '"') {
      const Extent json = json_string_at(text_, at_);
      const std::size_t end = json.found == Found::yes ? json.end : text_.size();
      const std::string piece = text_.substr(at_, end - at_);
      if (json.found == Found::yes && !nlohmann::json::accept(piece)) {
        json_ += "\"" + json_escaped(piece.substr(1, piece.size() - 2)) + "\"";
        at_ = end;
        return true;
      }
      if (json.found != Found::yes) return false;
      json_ += piece;
      at_ = end;
      return true;
    }
    const std::size_t end = std::min(text_.find_first_of(",}]", at_), text_.find(closing_, at_));
    if (end == std::string::npos) return false;
    std::string word = text_.substr(at_, end - at_);
    word.erase(word.find_last_not_of(" \t\r\n") + 1);
    json_ += word.empty() ? "null" : nlohmann::json::accept(word) ? word : "\"" + json_escaped(word) + "\"";
    at_ = end;
    return true;
  }

  // A quote ends a string only where the arguments go on behind it.
  bool string() {
    const std::size_t begin = at_ + quote.size();
    json_ += '"';
    for (std::size_t close = text_.find(quote, begin); close != std::string::npos;
         close = text_.find(quote, close + 1)) {
      const std::size_t next = skip_blank(text_, close + quote.size());
      const bool is_last = next == text_.size();
      const Found closes = mark_at(text_, next, closing_);
      const bool is_open = is_last || closes == Found::more;
      if (is_open && end_ == AnswerEnd::none) return string_until(begin, close);
      if (!is_open && closes != Found::yes && std::string(",}]").find(text_[next]) == std::string::npos) continue;
      (void)string_until(begin, close);
      json_ += '"';
      at_ = close + quote.size();
      return true;
    }
    std::size_t end = text_.size();
    for (std::size_t size = std::min(quote.size() - 1, end - begin); size > 0 && end_ == AnswerEnd::none; --size) {
      if (text_.compare(text_.size() - size, size, quote, 0, size) != 0) continue;
      end -= size;
      break;
    }
    is_in_string_ = true;
    return string_until(begin, end);
  }

  bool string_until(std::size_t begin, std::size_t end) {
    json_ += json_escaped(text_.data() + begin, text_.data() + end);
    return false;
  }

  GemmaArguments unfinished() {
    if (end_ == AnswerEnd::whole) {  // the model ended it
      if (is_in_string_) json_ += '"';
      else if (at_ < text_.size()) unread();
      if (!json_.empty() && json_.back() == ':') json_ += "null";
      close_all();
    } else if (end_ == AnswerEnd::cut && !is_in_string_ && at_ < text_.size()) {
      json_ += text_.substr(at_);
    }
    return {Found::more, text_.size(), std::move(json_)};
  }

  // Text that is the beginning of a key or of a value.
  void unread() {
    const std::string rest = "\"" + json_escaped(text_.substr(at_)) + "\"";
    if (json_.back() == ':' || open_.back() == '[') json_ += rest;
    else json_ += (is_first_ ? "" : ",") + rest + ":null";
  }

  const std::string& text_;
  std::size_t at_;
  const std::string& closing_;
  const AnswerEnd end_;
  std::string json_;
  std::vector<char> open_;
  bool is_first_ = true, is_in_string_ = false;
};

}  // namespace

GemmaArguments gemma_arguments(const std::string& text, std::size_t at, const std::string& closing, AnswerEnd end) {
  return Transcription(text, at, closing, end).read();
}

}  // namespace specdec
