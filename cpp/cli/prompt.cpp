#include "cli/prompt.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/options.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

constexpr std::size_t max_prompt_bytes = 64 << 20;  // more than any context holds

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

constexpr const char* remedy = "; save it as UTF-8";

bool begins_with(const std::string& text, const char* start, std::size_t bytes) {
  return text.compare(0, bytes, start, bytes) == 0;
}

void check_utf8(const std::string& text, const std::string& name) {
  const std::string valid = valid_utf8(text);
  if (valid == text) return;
  const auto first = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end()).first;
  throw Error(name + ": not UTF-8 text at byte " + std::to_string(first - text.begin()) + remedy);
}

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
  std::string text = text_of(std::move(bytes), name);
  if (text.empty() || text.back() != '\n') return text;
  text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
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

}  // namespace

std::string text_of(std::string bytes, const std::string& name) {
  constexpr char mark[] = "\xEF\xBB\xBF", little[] = "\xFF\xFE", big[] = "\xFE\xFF";
  if (begins_with(bytes, little, 2) || begins_with(bytes, big, 2)) throw Error(name + ": is UTF-16 text" + remedy);
  if (begins_with(bytes, mark, 3)) bytes.erase(0, 3);
  if (const std::size_t zero = bytes.find('\0'); zero != std::string::npos)
    throw Error(name + ": has a NUL at byte " + std::to_string(zero) + ", as UTF-16 and binary files do" + remedy);
  check_utf8(bytes, name);
  return bytes;
}

std::string read_file(const std::string& path) {
  if (path == "-") return read_all(stdin, "standard input");
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw Error(path + ": cannot be opened: " + std::generic_category().message(errno));
  return read_all(file.get(), path);
}

std::string read_prompt(const PromptSource& source) {
  if (source.text && source.file) throw UsageError("give -p or -f, not both");
  std::string prompt;
  if (source.text) {
    prompt = source.escapes ? unescape(*source.text) : *source.text;
    check_utf8(prompt, "-p");
  } else {
    if (!source.file && input_is_terminal()) throw UsageError("no prompt: give -p TEXT or -f FILE, or pipe it in");
    prompt = read_file(source.file.value_or("-"));
  }
  return prompt;
}

}  // namespace specdec::cli
