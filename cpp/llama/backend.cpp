#include "llama/backend.h"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/isa.h"
#include "base/utf8.h"
#include "graph/op_hook.h"
#include "llama.h"
#include "llama/tensor_buffers.h"
#include "platform/console.h"

namespace specdec {
namespace {

thread_local std::string backend_errors;

// ggml calls this before it aborts the process, and prints nothing itself. Exceptions propagate through its C code,
// which is compiled with -fexceptions.
void on_abort(const char* message) {
  if (AbortsAsErrors::is_active()) throw std::runtime_error(message);
  print_abort(message);
}

std::atomic<LogSink> log_sink{nullptr};

// Assembles a line that may come in several pieces; pieces after the first have no level of their own.
class LogLine {
 public:
  void add(ggml_log_level level, const char* text) {
    if (level != GGML_LOG_LEVEL_CONT) level_ = level_of(level);
    line_ += text;
    if (line_.empty() || line_.back() != '\n') return;
    line_.pop_back();
    if (const LogSink sink = log_sink; sink != nullptr && !line_.empty()) sink(level_, line_);
    line_.clear();
  }

 private:
  static LogLevel level_of(ggml_log_level level) {
    switch (level) {
      case GGML_LOG_LEVEL_ERROR:
        return LogLevel::error;
      case GGML_LOG_LEVEL_WARN:
        return LogLevel::warning;
      case GGML_LOG_LEVEL_INFO:
        return LogLevel::info;
      default:
        return LogLevel::debug;
    }
  }

  LogLevel level_ = LogLevel::info;
  std::string line_;
};
thread_local LogLine log_line;

}  // namespace

// llama.cpp also logs in destructors, so this must not throw: if memory runs out, the line is lost.
void log_of_llama(int ggml_level, const char* text) {
  try {
    const auto level = static_cast<ggml_log_level>(ggml_level);
    log_line.add(level, text);
    if (level != GGML_LOG_LEVEL_ERROR) return;
    std::string line(text);
    while (!line.empty() && line.back() == '\n') line.pop_back();
    if (!backend_errors.empty()) backend_errors += "; ";
    backend_errors += line;
  } catch (const std::bad_alloc&) {
  }
}

void print_abort(const char* message) {
  (void)write_to(StandardStream::error, std::string(message) + "\n");  // ignored: standard error may be closed
}

void set_log_sink(LogSink sink) { log_sink = sink; }

void start_backend() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (default_isa().isa == nullptr) throw Error(default_isa().error);
    llama_log_set([](ggml_log_level level, const char* text, void*) { log_of_llama(level, text); }, nullptr);
    ggml_set_abort_callback(on_abort);
    llama_backend_init();
    install_op_hook(AbortsAsErrors::suspend);
    install_tensor_buffers();
  });
}

std::string take_backend_errors() {
  std::string errors;
  errors.swap(backend_errors);
  return printable(errors);  // llama.cpp quotes the file's contents
}

}  // namespace specdec
