#include "platform/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace specdec {

void open_standard_descriptors() noexcept {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one, since those below are open.
    if (open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

}  // namespace specdec
