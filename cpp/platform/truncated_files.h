// Reports mapped files that another program truncates or whose disk fails: reading missing pages raises SIGBUS.
#pragma once

namespace specdec {

// From now on, such a read ends the process with `exit_code` and a line on standard error that names the file. This
// works only for shared mappings, as of models, and if the system tells which file is mapped at an address (Linux); any
// other SIGBUS ends the process as usual. For programs that own their signals, not for libraries.
void report_truncated_files(int exit_code);

}  // namespace specdec
