// platform/console.h on POSIX systems.
#include "platform/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace specdec {
namespace {

int descriptor(StandardStream stream) {
  return stream == StandardStream::input ? STDIN_FILENO : stream == StandardStream::output ? STDOUT_FILENO : STDERR_FILENO;
}

std::atomic<bool> is_muted[3];

struct termios original_mode = {};
constexpr int deadly_signals[] = {SIGTERM, SIGHUP};

extern "C" void restore_mode_and_end(int number) {
  tcsetattr(STDIN_FILENO, TCSANOW, &original_mode);
  std::signal(number, SIG_DFL);
  raise(number);
}

void replace_handlers(void (*from)(int), void (*to)(int)) {
  for (const int number : deadly_signals) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != from) continue;  // ignored, or caught by others
    action.sa_handler = to;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

RawInput::RawInput() {
  if (tcgetattr(STDIN_FILENO, &original_mode) != 0) return;
  replace_handlers(SIG_DFL, restore_mode_and_end);
  struct termios mode = original_mode;
  mode.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
}

RawInput::~RawInput() {
  tcsetattr(STDIN_FILENO, TCSADRAIN, &original_mode);
  replace_handlers(restore_mode_and_end, SIG_DFL);
}

void suspend() { raise(SIGTSTP); }

void open_standard_streams() noexcept {
  for (const StandardStream stream : {StandardStream::input, StandardStream::output, StandardStream::error}) {
    if (fcntl(descriptor(stream), F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one, since those below are open.
    if (open("/dev/null", stream == StandardStream::input ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

void mute(StandardStream stream) noexcept { is_muted[static_cast<int>(stream)] = true; }

bool is_terminal(StandardStream stream) { return isatty(descriptor(stream)) != 0; }

TerminalSize terminal_size() {
  struct winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? TerminalSize{size.ws_col, size.ws_row} : TerminalSize{80, 24};
}

std::error_code write_to(StandardStream stream, std::string_view text) noexcept {
  if (is_muted[static_cast<int>(stream)]) return {};
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
