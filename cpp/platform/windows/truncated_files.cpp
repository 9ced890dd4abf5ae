// platform/truncated_files.h on Windows.
#include "platform/truncated_files.h"

namespace specdec {

void report_truncated_files(int) {}  // Windows does not let programs truncate a mapped file

}  // namespace specdec
