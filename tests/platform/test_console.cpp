// Standard streams that were closed when the process began.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "check.h"
#include "platform/console.h"

namespace {

using namespace specdec;

TEST(closed_streams_are_opened_on_dev_null) {
  const int kept = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  open_standard_streams();
  struct stat opened = {}, null = {};
  CHECK(fstat(STDERR_FILENO, &opened) == 0 && stat("/dev/null", &null) == 0);
  CHECK(opened.st_rdev == null.st_rdev);
  dup2(kept, STDERR_FILENO);
  close(kept);
}

// Last: a stream stays muted.
TEST(a_file_with_the_number_of_a_muted_stream_is_left_alone) {
  std::FILE* const file = std::tmpfile();
  const int kept = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  CHECK(!write_to(StandardStream::error, "before"));
  mute(StandardStream::error);
  CHECK(!write_to(StandardStream::error, "after"));
  dup2(kept, STDERR_FILENO);
  close(kept);
  CHECK(lseek(fileno(file), 0, SEEK_END) == 6);
  std::fclose(file);
}

}  // namespace

TEST_MAIN()
