// What llama.cpp's chat parsers call of its common.cpp and log.cpp, which need the whole of common/: helpers of
// strings, and a log that is off.
#include <cstdarg>
#include <stdexcept>

#include "common.h"
#include "log.h"

std::string string_join(const std::vector<std::string>& values, const std::string& separator) {
  std::string joined;
  for (std::size_t i = 0; i < values.size(); ++i) joined += (i == 0 ? "" : separator) + values[i];
  return joined;
}

std::vector<std::string> string_split(const std::string& text, const std::string& delimiter) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(delimiter, begin)) != std::string::npos; begin = end + delimiter.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string string_repeat(const std::string& text, std::size_t count) {
  std::string repeated;
  for (; count > 0; --count) repeated += text;
  return repeated;
}

void string_replace_all(std::string& text, const std::string& search, const std::string& replace) {
  if (search.empty()) return;
  for (std::size_t at = 0; (at = text.find(search, at)) != std::string::npos; at += replace.size()) {
    text.replace(at, search.size(), replace);
  }
}

std::string string_strip(const std::string& text) {
  const char* const space = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(space);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

// Only templates that come with a model call these, and ours come as texts.
std::string common_token_to_piece(const llama_vocab*, llama_token, bool) {
  throw std::logic_error("the parser has no vocabulary");
}
std::vector<llama_token> common_tokenize(const llama_vocab*, const std::string&, bool, bool) {
  throw std::logic_error("the parser has no vocabulary");
}

int common_log_get_verbosity_thold() { return LOG_LEVEL_OUTPUT - 1; }
common_log* common_log_main() { return nullptr; }
void common_log_add(common_log*, ggml_log_level, const char*, ...) {}
bool common_log_get_jsonl() { return false; }
void common_log_add_json(common_log*, const char*, const common_json&) {}
