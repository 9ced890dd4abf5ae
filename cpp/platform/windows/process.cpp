// platform/process.h on Windows.
#include "platform/process.h"

#include <algorithm>

#include "base/error.h"
#include "platform/windows/utf16.h"

namespace specdec {
namespace {

// Quotes a word of a command line so that the program gets it unchanged: backslashes before a quotation mark are
// doubled.
std::string quoted(const std::string& word) {
  std::string text = "\"";
  std::size_t backslashes = 0;
  for (const char c : word) {
    if (c == '"') text.append(backslashes + 1, '\\');
    backslashes = c == '\\' ? backslashes + 1 : 0;
    text += c;
  }
  return text.append(backslashes, '\\') + '"';
}

void write_all(HANDLE to, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    DWORD count = 0;
    const auto bytes = static_cast<DWORD>(std::min<std::size_t>(text.size() - done, 1u << 20));
    if (WriteFile(to, text.data() + done, bytes, &count, nullptr) == 0)
      return;  // the program ended early; its exit status tells
    done += count;
  }
}

}  // namespace

std::uint64_t process_id() { return GetCurrentProcessId(); }

bool is_running(std::uint64_t process) noexcept {
  HANDLE opened = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, static_cast<DWORD>(process));
  if (opened == nullptr) return GetLastError() == ERROR_ACCESS_DENIED;
  DWORD status = 0;
  const bool is_alive = GetExitCodeProcess(opened, &status) != 0 && status == STILL_ACTIVE;
  CloseHandle(opened);
  return is_alive;
}

void run_this_thread_when_idle() noexcept { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_IDLE); }

int run_program(std::vector<std::string> command, const std::string& input) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + quoted(word);
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, nullptr, TRUE};
  HANDLE read_end = nullptr, write_end = nullptr;
  if (CreatePipe(&read_end, &write_end, &inherited, 0) == 0)
    throw Error("cannot create a pipe: " + system_message(GetLastError()));
  SetHandleInformation(write_end, HANDLE_FLAG_INHERIT, 0);
  STARTUPINFOW start = {};
  start.cb = sizeof start;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdInput = read_end;
  start.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
  start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
  PROCESS_INFORMATION child = {};
  const bool is_started =
      CreateProcessW(nullptr, to_utf16(line).data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start, &child) != 0;
  const DWORD error = GetLastError();
  CloseHandle(read_end);
  if (is_started) write_all(write_end, input);
  CloseHandle(write_end);
  if (!is_started) throw Error("cannot run " + command[0] + ": " + system_message(error));
  WaitForSingleObject(child.hProcess, INFINITE);
  DWORD status = 1;
  GetExitCodeProcess(child.hProcess, &status);
  CloseHandle(child.hThread);
  CloseHandle(child.hProcess);
  return static_cast<int>(status);
}

}  // namespace specdec
