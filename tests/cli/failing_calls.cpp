// Preloaded into a program (LD_PRELOAD), lets one call of one function of the C library fail:
//
//   FAULT_CALL=read FAULT_AT=3 FAULT_ERRNO=5 FAULT_COUNT=FILE
//
// The third read() of the process, on any thread, fails with errno 5. When the process exits, FILE has the number of
// calls. glibc.

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function real(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::atomic<int> calls{0};

bool fails(const char* call) {
  static const char* const chosen = std::getenv("FAULT_CALL");
  if (chosen == nullptr || std::strcmp(chosen, call) != 0) return false;
  static const int at = std::atoi(std::getenv("FAULT_AT"));
  if (++calls != at) return false;
  errno = std::atoi(std::getenv("FAULT_ERRNO"));
  return true;
}

__attribute__((destructor)) void write_count() {
  const int count = calls;
  if (std::FILE* file = std::fopen(std::getenv("FAULT_COUNT"), "w")) {
    std::fprintf(file, "%d", count);
    std::fclose(file);
  }
}

}  // namespace

#define FAULTY extern "C" __attribute__((visibility("default")))

FAULTY ssize_t read(int file, void* to, std::size_t bytes) {
  static const auto call = real(&read, "read");
  return fails("read") ? -1 : call(file, to, bytes);
}
FAULTY ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  static const auto call = real(&pread, "pread");
  return fails("pread") ? -1 : call(file, to, bytes, offset);
}
FAULTY std::size_t fread(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  static const auto call = real(&fread, "fread");
  if (!fails("fread")) return call(to, size, count, file);
  constexpr int has_error = 0x20;  // for ferror()
  file->_flags |= has_error;
  return 0;
}
FAULTY ssize_t write(int file, const void* from, std::size_t bytes) {
  static const auto call = real(&write, "write");
  return fails("write") ? -1 : call(file, from, bytes);
}
FAULTY ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t offset) {
  static const auto call = real(&pwrite, "pwrite");
  return fails("pwrite") ? -1 : call(file, from, bytes, offset);
}
FAULTY void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  static const auto call = real(&mmap, "mmap");
  return fails("mmap") ? MAP_FAILED : call(at, bytes, protection, flags, file, offset);
}
FAULTY int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static const auto call = real(&pthread_create, "pthread_create");
  return fails("pthread_create") ? errno : call(thread, attributes, run, argument);
}
FAULTY int fsync(int file) {
  static const auto call = real(&fsync, "fsync");
  return fails("fsync") ? -1 : call(file);
}
FAULTY int rename(const char* from, const char* to) noexcept {
  static const auto call = real(&rename, "rename");
  return fails("rename") ? -1 : call(from, to);
}
FAULTY int accept4(int listener, sockaddr* address, socklen_t* bytes, int flags) {
  static const auto call = real(&accept4, "accept4");
  return fails("accept4") ? -1 : call(listener, address, bytes, flags);
}
FAULTY ssize_t recv(int connection, void* to, std::size_t bytes, int flags) {
  static const auto call = real(&recv, "recv");
  return fails("recv") ? -1 : call(connection, to, bytes, flags);
}
FAULTY ssize_t send(int connection, const void* from, std::size_t bytes, int flags) {
  static const auto call = real(&send, "send");
  return fails("send") ? -1 : call(connection, from, bytes, flags);
}
FAULTY int poll(pollfd* files, nfds_t count, int milliseconds) {
  static const auto call = real(&poll, "poll");
  return fails("poll") ? -1 : call(files, count, milliseconds);
}
