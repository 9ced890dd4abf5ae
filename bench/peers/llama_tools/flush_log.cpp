// llama.cpp writes its log on a thread that is not joined at exit, so the last lines, which have the figures, are
// sometimes lost. This flushes the log at exit.
#include "log.h"

namespace {
struct Flush {
  ~Flush() { common_log_flush(common_log_main()); }
} at_exit;
}  // namespace
