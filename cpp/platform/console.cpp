#include "platform/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace specdec {
namespace {

int descriptor(StandardStream stream) {
  return stream == StandardStream::input ? STDIN_FILENO : stream == StandardStream::output ? STDOUT_FILENO : STDERR_FILENO;
}

}  // namespace

void open_standard_streams() noexcept {
  for (const StandardStream stream : {StandardStream::input, StandardStream::output, StandardStream::error}) {
    if (fcntl(descriptor(stream), F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one, since those below are open.
    if (open("/dev/null", stream == StandardStream::input ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

bool is_terminal(StandardStream stream) { return isatty(descriptor(stream)) != 0; }

TerminalSize terminal_size() {
  struct winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? TerminalSize{size.ws_col, size.ws_row} : TerminalSize{80, 24};
}

std::error_code write_to(StandardStream stream, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor(stream), text.data(), text.size());
    if (count >= 0) text.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR) return {errno, std::generic_category()};
  }
  return {};
}

void keep_running_on_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

std::optional<std::size_t> read_input(char* to, std::size_t bytes) {
  const ssize_t count = ::read(STDIN_FILENO, to, bytes);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EINTR) return std::nullopt;
  throw Error("standard input cannot be read: " + std::generic_category().message(errno));
}

}  // namespace specdec
