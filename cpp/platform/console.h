// Standard input, output and error, and the terminals behind them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace specdec {

enum class StandardStream { input, output, error };

// Opens /dev/null on those of the three that are closed: otherwise the next file opened gets the number, and messages
// for standard error are written into it. First of all in main().
void open_standard_streams() noexcept;

// Drops what write_to() is given for it from now on: the stream was closed when the process began, and its number may
// since have become another file's.
void mute(StandardStream stream) noexcept;

bool is_terminal(StandardStream stream);

struct TerminalSize {
  int columns, rows;
};
// As it is now: of standard output, else of standard error; 80 x 24 where neither tells.
TerminalSize terminal_size();

// Writes all at once, past stdio: where a signal interrupts that, it does not say how much was written. Returns what
// went wrong; std::errc::broken_pipe when nobody reads any more.
std::error_code write_to(StandardStream stream, std::string_view text) noexcept;

// A closed pipe is from now on an error of write_to(), instead of the end of the program.
void keep_running_on_closed_pipes();

// During its lifetime the terminal behind standard input delivers every key at once, without echo or editing, and marks
// pastes (bracketed paste). A signal that ends the process restores the terminal, too. One at a time.
class RawInput {
 public:
  RawInput() { begin(); }
  ~RawInput() { end(); }
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;

  // true: Ctrl-C is a key, which keeps its place among the others; false, as at the start: a signal, which comes at
  // once.
  void set_interrupt_key(bool is_key) noexcept;
  // Stops the process as Ctrl-Z at a terminal does, until it is continued.
  void suspend();

 private:
  void begin() noexcept;
  void end() noexcept;  // also drops what was typed and not read: a shell would run it

  bool has_interrupt_key_ = false;
};

// Whether read_input() of a terminal would return at once.
bool has_input() noexcept;

// Waits for bytes of standard input and returns how many were read; 0: its end; null: a signal came first. Throws
// Error.
std::optional<std::size_t> read_input(char* to, std::size_t bytes);

}  // namespace specdec
