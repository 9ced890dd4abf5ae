// Standard input, output and error, and the terminals behind them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace specdec {

enum class StandardStream { input, output, error };

// Opens /dev/null for each of the three streams that is closed: otherwise the next file opened gets its number, and
// messages for standard error are written into that file. Must be called first in main().
void open_standard_streams() noexcept;

// From now on, write_to() drops what it is given for this stream: the stream was closed when the process began, and its
// number may belong to another file by now.
void mute(StandardStream stream) noexcept;

bool is_terminal(StandardStream stream);

struct TerminalSize {
  int columns, rows;
};
// The current size of the terminal of standard output, or else of standard error; 80 x 24 if neither is known.
TerminalSize terminal_size();

// Writes the whole text without stdio, which does not tell how much was written when a signal interrupts it. Returns
// the error; std::errc::broken_pipe if nobody reads any more.
std::error_code write_to(StandardStream stream, std::string_view text) noexcept;

// From now on, a closed pipe is an error of write_to() and does not end the program.
void keep_running_on_closed_pipes();

// During its lifetime the terminal behind standard input delivers every key at once, without echo or editing, and marks
// pastes (bracketed paste). A signal that ends the process also restores the terminal. Only one object may exist at a
// time.
class RawInput {
 public:
  RawInput() { begin(); }
  ~RawInput() { end(); }
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;

  // true: Ctrl-C is a key, delivered in order with the others. false (initially): it is a signal, delivered at once.
  void set_interrupt_key(bool is_key) noexcept;
  // Stops the process, as Ctrl-Z at a terminal does, until it is continued.
  void suspend();

 private:
  void begin() noexcept;
  void end() noexcept;  // also drops typed keys that were not read: a shell would run them

  bool has_interrupt_key_ = false;
};

// Whether read_input() from a terminal would return at once.
bool has_input() noexcept;

// Waits for bytes from standard input and returns how many were read; 0 at its end; nullopt if a signal came first.
// Throws Error.
std::optional<std::size_t> read_input(char* to, std::size_t bytes);

}  // namespace specdec
