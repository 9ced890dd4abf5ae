#include "cli/terminal/output.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"
#include "cli/terminal/format.h"
#include "platform/console.h"

namespace specdec::cli {
namespace {

// Whether this is a byte of a UTF-8 character after the first.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

void write(std::string_view text) {
  const std::error_code error = write_to(StandardStream::output, text);
  if (error == std::errc::broken_pipe) throw OutputClosed();
  if (error) throw Error("cannot write to standard output: " + error.message());
}

void note(std::string_view text) {
  const std::string valid = valid_utf8(std::string(text));  // file names may be anything
  (void)std::fwrite(valid.data(), 1, valid.size(), stderr);
}

std::string told(const std::string& sentence) {
  if (!is_terminal(StandardStream::error)) return sentence;
  return wrap(sentence, idx(std::max(20, terminal_size().columns - 1)), 0);
}

void tell(const std::string& sentence) { note(told(sentence) + "\n"); }

std::string labelled(const std::string& label, const std::string& text) {
  constexpr int most = 80, least = 30;
  constexpr std::size_t indent = 9;
  const int columns = is_terminal(StandardStream::error) ? std::clamp(terminal_size().columns - 1, least, most) : most;
  return pad(label, indent) + wrap(text, idx(columns) - indent, indent) + "\n";
}

bool output_is_terminal() { return is_terminal(StandardStream::output); }
bool input_is_terminal() { return is_terminal(StandardStream::input); }

std::string wrap(const std::string& text, std::size_t columns, std::size_t indent) {
  std::istringstream words(text);
  std::string result, word;
  std::size_t column = 0;
  while (words >> word) {
    if (column > 0 && column + 1 + word.size() > columns) {
      result += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      result += " ";
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string shorten(const std::string& text, std::size_t columns) {
  std::size_t characters = 0, cut = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (continues(text[i])) continue;
    if (++characters == columns) cut = i;
  }
  return characters <= columns ? text : text.substr(0, cut) + "\u2026";
}

}  // namespace specdec::cli
