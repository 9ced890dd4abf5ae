// platform/console.h on Windows.
#include "platform/console.h"

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/windows/utf16.h"

namespace specdec {
namespace {

HANDLE handle(StandardStream stream) {
  return GetStdHandle(stream == StandardStream::input    ? STD_INPUT_HANDLE
                      : stream == StandardStream::output ? STD_OUTPUT_HANDLE
                                                         : STD_ERROR_HANDLE);
}

std::atomic<bool> is_muted[3];
DWORD original_mode = 0;
bool is_raw = false;
UINT original_code_page = 0;

// UTF-8 that read_input() has not returned yet, and the first half of a character of two UTF-16 units.
std::string unread;
wchar_t first_half = L'\0';

void read_console() {
  wchar_t units[256];
  DWORD count = 0;
  std::wstring read(first_half == L'\0' ? 0 : 1, first_half);
  if (ReadConsoleW(handle(StandardStream::input), units, 256, &count, nullptr) == 0)
    throw Error("standard input cannot be read: " + system_message(GetLastError()));
  read.append(units, count);
  first_half = L'\0';
  if (!read.empty() && read.back() >= 0xD800 && read.back() < 0xDC00) {
    first_half = read.back();
    read.pop_back();
  }
  DWORD mode = 0;
  GetConsoleMode(handle(StandardStream::input), &mode);
  if ((mode & ENABLE_LINE_INPUT) != 0) {
    if (!read.empty() && read.front() == L'\x1a') read.clear();  // Ctrl-Z at the start of a line is the end
    read.erase(std::remove(read.begin(), read.end(), L'\r'), read.end());
  }
  unread = to_utf8(read);
}

}  // namespace

void RawInput::begin() noexcept {
  is_raw = GetConsoleMode(handle(StandardStream::input), &original_mode) != 0;
  set_interrupt_key(has_interrupt_key_);
  if (is_raw) (void)write_to(StandardStream::output, "\x1b[?2004h");
}

void RawInput::set_interrupt_key(bool is_key) noexcept {
  has_interrupt_key_ = is_key;
  if (!is_raw) return;
  const DWORD cooked = ENABLE_ECHO_INPUT | ENABLE_LINE_INPUT | ENABLE_PROCESSED_INPUT;
  const DWORD signals = is_key ? 0 : ENABLE_PROCESSED_INPUT;
  SetConsoleMode(handle(StandardStream::input), (original_mode & ~cooked) | signals | ENABLE_VIRTUAL_TERMINAL_INPUT);
}

void RawInput::end() noexcept {
  if (!is_raw) return;
  (void)write_to(StandardStream::output, "\x1b[?2004l");
  FlushConsoleInputBuffer(handle(StandardStream::input));
  SetConsoleMode(handle(StandardStream::input), original_mode);
  is_raw = false;
}

void RawInput::suspend() {}  // consoles have no job control

bool has_input() noexcept {
  if (!unread.empty()) return true;
  INPUT_RECORD records[64];
  DWORD count = 0;
  if (PeekConsoleInputW(handle(StandardStream::input), records, 64, &count) == 0) return false;
  return std::any_of(records, records + count, [](const INPUT_RECORD& record) {
    return record.EventType == KEY_EVENT && record.Event.KeyEvent.bKeyDown != 0 &&
           record.Event.KeyEvent.uChar.UnicodeChar != 0;
  });
}

void open_standard_streams() noexcept {
  // File numbers of these three are not reused, so closed ones are harmless. Binary mode keeps text unchanged.
  _setmode(_fileno(stdin), _O_BINARY);
  _setmode(_fileno(stdout), _O_BINARY);
  _setmode(_fileno(stderr), _O_BINARY);
  for (const StandardStream stream : {StandardStream::output, StandardStream::error}) {
    DWORD mode = 0;
    if (GetConsoleMode(handle(stream), &mode) == 0) continue;
    SetConsoleMode(handle(stream), mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    if (original_code_page != 0) continue;
    original_code_page = GetConsoleOutputCP();
    if (SetConsoleOutputCP(CP_UTF8) != 0) std::atexit([] { SetConsoleOutputCP(original_code_page); });
  }
}

void mute(StandardStream stream) noexcept { is_muted[static_cast<int>(stream)] = true; }

bool is_terminal(StandardStream stream) {
  DWORD mode = 0;
  return GetConsoleMode(handle(stream), &mode) != 0;
}

TerminalSize terminal_size() {
  CONSOLE_SCREEN_BUFFER_INFO screen = {};
  if (GetConsoleScreenBufferInfo(handle(StandardStream::output), &screen) == 0) return {80, 24};
  return {screen.srWindow.Right - screen.srWindow.Left + 1, screen.srWindow.Bottom - screen.srWindow.Top + 1};
}

std::error_code write_to(StandardStream stream, std::string_view text) noexcept {
  if (is_muted[static_cast<int>(stream)]) return {};
  while (!text.empty()) {
    DWORD count = 0;
    const auto bytes = static_cast<DWORD>(std::min<std::size_t>(text.size(), 1u << 30));
    if (WriteFile(handle(stream), text.data(), bytes, &count, nullptr) == 0) {
      const DWORD error = GetLastError();
      if (error == ERROR_BROKEN_PIPE || error == ERROR_NO_DATA) return std::make_error_code(std::errc::broken_pipe);
      return {static_cast<int>(error), std::system_category()};
    }
    text.remove_prefix(count);
  }
  return {};
}

void keep_running_on_closed_pipes() {}  // here they never end a program

std::optional<std::size_t> read_input(char* to, std::size_t bytes) {
  if (is_terminal(StandardStream::input)) {
    if (unread.empty()) {
      SetLastError(0);
      read_console();
      if (unread.empty() && (first_half != L'\0' || GetLastError() == ERROR_OPERATION_ABORTED)) return std::nullopt;
    }
    const std::size_t count = std::min(bytes, unread.size());
    unread.copy(to, count);
    unread.erase(0, count);
    return count;
  }
  DWORD count = 0;
  if (ReadFile(handle(StandardStream::input), to, static_cast<DWORD>(std::min<std::size_t>(bytes, 1u << 30)), &count,
               nullptr) != 0)
    return count;
  const DWORD error = GetLastError();
  if (error == ERROR_BROKEN_PIPE || error == ERROR_HANDLE_EOF) return 0;
  throw Error("standard input cannot be read: " + system_message(error));
}

}  // namespace specdec
