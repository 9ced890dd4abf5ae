// Mapped files that another program makes shorter, or whose disk fails: reading what cannot be had is a SIGBUS.
#pragma once

namespace specdec {

// From now on, such a read ends the process with `exit_code` and a line on standard error that names the file. Only for
// files mapped as models are (shared), and where the system tells which file is mapped at an address (Linux); any other
// SIGBUS ends the process as it would without this. For programs that own their signals: not for libraries.
void report_truncated_files(int exit_code);

}  // namespace specdec
