// Initialises llama.cpp for the process and captures its log for our error messages.
#pragma once

#include <string>

namespace specdec {

// Initialises llama.cpp and installs our kernels. Call before loading any model; repeated calls do nothing.
void start_backend();

enum class LogLevel { debug, info, warning, error };
using LogSink = void (*)(LogLevel level, const std::string& line);

// The sink gets every line that llama.cpp logs, on the thread that logs it; it must return soon and throw nothing.
// Null, the default: no sink.
void set_log_sink(LogSink sink);

// The log callback for further copies of ggml in this process (device_modules.h).
void log_of_llama(int ggml_level, const char* text);
void print_abort(const char* message);

// The errors that llama.cpp logged on this thread since the last call, on one line, for our own messages.
std::string take_backend_errors();

}  // namespace specdec
