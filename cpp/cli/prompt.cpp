#include "cli/prompt.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "cli/options.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

constexpr std::size_t max_prompt_bytes = 64 << 20;  // more than any context holds

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string read_all(std::FILE* file, const std::string& name) {
  std::string bytes;
  char chunk[1 << 16];
  std::size_t count = 0;
  do {
    count = std::fread(chunk, 1, sizeof chunk, file);
    bytes.append(chunk, count);
    if (bytes.size() > max_prompt_bytes) throw Error(name + ": longer than 64 MiB; no model takes such a prompt");
  } while (count == sizeof chunk);
  if (std::ferror(file) != 0) throw Error(name + ": cannot be read: " + std::generic_category().message(errno));
  if (!bytes.empty() && bytes.back() == '\n') bytes.pop_back();
  return bytes;
}

// llama.cpp's escapes except \x; unknown ones are kept unchanged.
std::string unescape(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    constexpr char names[] = "nrt'\"\\", values[] = "\n\r\t'\"\\";
    const char* name = text[i] == '\\' && i + 1 < text.size() ? std::strchr(names, text[i + 1]) : nullptr;
    if (name != nullptr && *name != '\0') {
      result += values[name - names];
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

void check_utf8(const std::string& text, const std::string& name) {
  const std::string valid = valid_utf8(text);
  if (valid == text) return;
  const auto first = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end()).first;
  throw Error(name + ": not UTF-8 text at byte " + std::to_string(first - text.begin()) + "; convert it first");
}

}  // namespace

std::string read_file(const std::string& path) {
  if (path == "-") return read_all(stdin, "standard input");
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw Error(path + ": cannot be opened: " + std::generic_category().message(errno));
  return read_all(file.get(), path);
}

std::string read_prompt(const PromptSource& source) {
  if (source.text && source.file) throw UsageError("give -p or -f, not both");
  std::string name = "-p", prompt;
  if (source.text) {
    prompt = source.escapes ? unescape(*source.text) : *source.text;
  } else {
    if (!source.file && input_is_terminal()) throw UsageError("no prompt: give -p TEXT or -f FILE, or pipe it in");
    name = source.file.value_or("-");
    prompt = read_file(name);
    if (name == "-") name = "standard input";
  }
  check_utf8(prompt, name);
  return prompt;
}

}  // namespace specdec::cli
