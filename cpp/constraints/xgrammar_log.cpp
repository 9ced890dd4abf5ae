#include "constraints/xgrammar_log.h"

#include <utility>

namespace {
thread_local std::string first_warning;
}  // namespace

namespace specdec {

std::string take_xgrammar_warning() { return std::exchange(first_warning, std::string()); }

}  // namespace specdec

// Declared in xgrammar's cpp/support/logging.h, which calls these functions if XGRAMMAR_LOG_CUSTOMIZE is defined.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw specdec::XgrammarError(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level, const std::string& message) {
  constexpr int warning = 2;
  if (level >= warning && first_warning.empty()) first_warning = message;
}

}  // namespace xgrammar
