// System calls of an executable that fail at a chosen moment: at the n-th call, by number, of the functions below. They
// are defined in the executable, so that the linker prefers them to the C library's, also for calls from libstdc++.
// Linux. Include it in one file of the executable only.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>

namespace faults {

enum class Kind {
  none,
  error,         // the call fails with `error`, and does nothing
  halved,        // reads and writes transfer half of the bytes
  halved_error,  // likewise, and the next call fails with `error`
  killed,        // the process is killed instead of the call
  killed_after,  // the process is killed after the call
};
inline Kind kind = Kind::none;
inline int error = 0;
inline int at = 0;     // the call that fails, counted from 1
inline int calls = 0;  // so far

inline void arm(Kind what, int when, int number = 0) { kind = what, at = when, error = number, calls = 0; }

// What becomes of the next call.
inline Kind next() {
  if (kind == Kind::none) return Kind::none;
  ++calls;
  if (kind == Kind::halved_error && calls == at + 1) return Kind::error;
  if (calls != at) return Kind::none;
  if (kind == Kind::killed) raise(SIGKILL);
  return kind;
}

template <class Function>
Function real(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

template <class Call>
auto run(Call call) -> decltype(call()) {
  const Kind fault = next();
  if (fault == Kind::error) {
    errno = error;
    return -1;
  }
  const auto result = call();
  if (fault == Kind::killed_after) raise(SIGKILL);
  return result;
}

template <class Call>
ssize_t transfer(std::size_t bytes, Call call) {
  const Kind fault = next();
  if (fault == Kind::error) {
    errno = error;
    return -1;
  }
  const bool is_halved = (fault == Kind::halved || fault == Kind::halved_error) && bytes > 1;
  const ssize_t count = call(is_halved ? bytes / 2 : bytes);
  if (fault == Kind::killed_after) raise(SIGKILL);
  return count;
}

}  // namespace faults

#define FAULTY extern "C" __attribute__((visibility("default")))

FAULTY ssize_t read(int file, void* to, std::size_t bytes) {
  static const auto call = faults::real(&read, "read");
  return faults::transfer(bytes, [&](std::size_t count) { return call(file, to, count); });
}
FAULTY ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  static const auto call = faults::real(&pread, "pread");
  return faults::transfer(bytes, [&](std::size_t count) { return call(file, to, count, offset); });
}
FAULTY ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t offset) {
  static const auto call = faults::real(&pwrite, "pwrite");
  return faults::transfer(bytes, [&](std::size_t count) { return call(file, from, count, offset); });
}
FAULTY int open(const char* path, int flags, ...) {
  static const auto call = faults::real(&open, "open");
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return faults::run([&] { return call(path, flags, mode); });
}
FAULTY int fsync(int file) {
  static const auto call = faults::real(&fsync, "fsync");
  return faults::run([&] { return call(file); });
}
FAULTY int ftruncate(int file, off_t bytes) noexcept {
  static const auto call = faults::real(&ftruncate, "ftruncate");
  return faults::run([&] { return call(file, bytes); });
}
FAULTY int rename(const char* from, const char* to) noexcept {
  static const auto call = faults::real(&rename, "rename");
  return faults::run([&] { return call(from, to); });
}
FAULTY int flock(int file, int operation) noexcept {
  static const auto call = faults::real(&flock, "flock");
  return faults::run([&] { return call(file, operation); });
}
// A closed descriptor is closed even where close() reports an error.
FAULTY int close(int file) {
  static const auto call = faults::real(&close, "close");
  const faults::Kind fault = faults::next();
  const int result = call(file);
  if (fault == faults::Kind::killed_after) raise(SIGKILL);
  if (fault != faults::Kind::error) return result;
  errno = faults::error;
  return -1;
}
