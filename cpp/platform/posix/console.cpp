// platform/console.h on POSIX systems.
#include "platform/console.h"

#include <fcntl.h>
#include <poll.h>
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
  return stream == StandardStream::input    ? STDIN_FILENO
         : stream == StandardStream::output ? STDOUT_FILENO
                                            : STDERR_FILENO;
}

std::atomic<bool> is_muted[3];

constexpr std::string_view mark_pastes = "\x1b[?2004h", leave_pastes = "\x1b[?2004l";
constexpr int deadly_signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGABRT, SIGSEGV};

struct termios original_mode = {};
bool is_raw = false;

extern "C" void restore_mode_and_end(int number) {
  (void)write_to(StandardStream::output, leave_pastes);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &original_mode);
  std::signal(number, SIG_DFL);
  raise(number);
}

constexpr int milliseconds_between_parts = 20;  // parts of a long paste

bool has_input_within(int milliseconds) {
  pollfd source = {STDIN_FILENO, POLLIN, 0};
  return poll(&source, 1, milliseconds) > 0 && (source.revents & (POLLIN | POLLHUP)) != 0;
}

void replace_handlers(void (*from)(int), void (*to)(int)) {
  for (const int number : deadly_signals) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != from) continue;  // ignored, or handled by others
    action.sa_handler = to;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

void RawInput::begin() noexcept {
  is_raw = tcgetattr(STDIN_FILENO, &original_mode) == 0;
  if (!is_raw) return;
  replace_handlers(SIG_DFL, restore_mode_and_end);
  set_interrupt_key(has_interrupt_key_);
  (void)write_to(StandardStream::output, mark_pastes);
}

void RawInput::set_interrupt_key(bool is_key) noexcept {
  has_interrupt_key_ = is_key;
  if (!is_raw) return;
  struct termios mode = original_mode;
  mode.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  if (!is_key) {
    mode.c_lflag |= ISIG | NOFLSH;
    mode.c_cc[VQUIT] = mode.c_cc[VSUSP] = _POSIX_VDISABLE;
  }
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
}

void RawInput::end() noexcept {
  if (!is_raw) return;
  (void)write_to(StandardStream::output, leave_pastes);
  for (int i = 0; i < 50 && has_input_within(milliseconds_between_parts); ++i) tcflush(STDIN_FILENO, TCIFLUSH);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &original_mode);
  replace_handlers(restore_mode_and_end, SIG_DFL);
  is_raw = false;
}

void RawInput::suspend() {
  end();
  raise(SIGTSTP);
  begin();
}

bool has_input() noexcept { return has_input_within(0); }

void open_standard_streams() noexcept {
  for (const StandardStream stream : {StandardStream::input, StandardStream::output, StandardStream::error}) {
    if (fcntl(descriptor(stream), F_GETFD) >= 0 || errno != EBADF) continue;
    // This is the lowest free number, because those below it are open.
    if (open("/dev/null", stream == StandardStream::input ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

void mute(StandardStream stream) noexcept { is_muted[static_cast<int>(stream)] = true; }

bool is_terminal(StandardStream stream) { return isatty(descriptor(stream)) != 0; }

TerminalSize terminal_size() {
  struct winsize size = {};
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
    if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) return {size.ws_col, size.ws_row};
  }
  return {80, 24};
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
