// Standard input, output and error, and the terminals behind them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace specdec {

enum class StandardStream { input, output, error };

// Opens /dev/null on those of the three that are closed: otherwise the next file opened gets the number, and messages for
// standard error are written into it. First of all in main().
void open_standard_streams() noexcept;

// Drops what write_to() is given for it from now on: the stream was closed when the process began, and its number may since have
// become another file's.
void mute(StandardStream stream) noexcept;

bool is_terminal(StandardStream stream);

struct TerminalSize {
  int columns, rows;
};
// Of standard output, as it is now; 80 x 24 where it does not tell.
TerminalSize terminal_size();

// Writes all at once, past stdio: where a signal interrupts that, it does not say how much was written. Returns what went wrong;
// std::errc::broken_pipe when nobody reads any more.
std::error_code write_to(StandardStream stream, std::string_view text) noexcept;

// A closed pipe is from now on an error of write_to(), instead of the end of the program.
void keep_running_on_closed_pipes();

// During its lifetime the terminal behind standard input delivers every key at once, without echo, editing or signals. Its mode is
// also restored if SIGTERM or SIGHUP ends the process. One at a time.
class RawInput {
 public:
  RawInput();
  ~RawInput();
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;
};

// Stops the process as Ctrl-Z at a terminal does, until it is continued.
void suspend();

// Waits for bytes of standard input and returns how many were read; 0: its end; null: a signal came first. Throws Error.
std::optional<std::size_t> read_input(char* to, std::size_t bytes);

}  // namespace specdec
