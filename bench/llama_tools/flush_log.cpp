// llama.cpp's log is written by a thread that nobody waits for at the end: without this the last lines, which have the
// figures, are lost now and then.
#include "log.h"

namespace {
struct Flush {
  ~Flush() { common_log_flush(common_log_main()); }
} at_exit;
}  // namespace
