// platform/file.h on POSIX systems.
#include "platform/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace specdec {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, const char* remedy) {
  throw Error(path + ": " + what + ": " + std::generic_category().message(errno) + "; " + remedy);
}
[[noreturn]] void fail_open(const std::string& path) {
  fail(path, "cannot be opened", "check the path and its permissions");
}
[[noreturn]] void fail_read(const std::string& path) { fail(path, "cannot be read", "check the disk"); }
[[noreturn]] void fail_write(const std::string& path) {
  fail(path, "cannot be written", "check the disk's free space and limits");
}

// Repeats a call while a signal interrupts it (negative result and EINTR).
template <class Call>
auto uninterrupted(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int open_file(const std::string& path, int flags) {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

int descriptor(std::intptr_t handle) { return static_cast<int>(handle); }

}  // namespace

File File::open(const std::string& path) {
  const int file = open_file(path, O_RDONLY);
  if (file < 0) fail_open(path);
  return {path, file};
}

File File::open_direct(const std::string& path) {
#ifdef O_DIRECT
  // File systems in memory, and some others, refuse the flag.
  const int direct = open_file(path, O_RDONLY | O_DIRECT);
  if (direct >= 0) return {path, direct};
#endif
  File file = open(path);
#ifdef F_NOCACHE
  fcntl(descriptor(file.handle_), F_NOCACHE, 1);
#endif
  return file;
}

File File::create(const std::string& path) {
  const int file = open_file(path, O_RDWR | O_CREAT | O_TRUNC);
  if (file < 0) fail_open(path);
  return {path, file};
}

File File::open_or_create(const std::string& path) {
  const int file = open_file(path, O_RDWR | O_CREAT);
  if (file < 0) fail_open(path);
  return {path, file};
}

std::optional<File> File::create_new(const std::string& path) {
  const int file = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  if (file < 0 && errno == EEXIST) return std::nullopt;
  if (file < 0) fail(path, "cannot be created", "check the folder and its permissions");
  return File(path, file);
}

File::~File() {
  if (handle_ >= 0) ::close(descriptor(handle_));
}

std::size_t File::read_some(std::uint64_t offset, void* to, std::size_t bytes) const {
  const ssize_t count =
      uninterrupted([&] { return pread(descriptor(handle_), to, bytes, static_cast<off_t>(offset)); });
  if (count < 0) fail_read(path_);
  return static_cast<std::size_t>(count);
}

void File::write(std::uint64_t offset, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const char* const rest = static_cast<const char*>(from) + done;
    const ssize_t count = uninterrupted(
        [&] { return pwrite(descriptor(handle_), rest, bytes - done, static_cast<off_t>(offset + done)); });
    if (count <= 0) fail_write(path_);
    done += static_cast<std::size_t>(count);
  }
}

void File::read_ahead(const std::function<bool(double)>& goes_on) const {
#ifdef __linux__
  constexpr int populate_read = 22;  // MADV_POPULATE_READ, since Linux 5.14; older headers lack it
  constexpr std::size_t part = std::size_t{16} << 20;
  std::error_code error;
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path_, error));
  if (error || size == 0) return;
  const auto unmap = [size](char* memory) { munmap(memory, size); };
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor(handle_), 0);
  if (mapped == MAP_FAILED) return;
  const std::unique_ptr<char, decltype(unmap)> memory(static_cast<char*>(mapped), unmap);
  for (std::size_t at = 0; at < size; at += part) {
    const std::size_t count = std::min(part, size - at);
    if (uninterrupted([&] { return madvise(memory.get() + at, count, populate_read); }) != 0) {
      if (errno != EFAULT && errno != EHWPOISON) return;
      errno = EIO;  // the error that reading the file itself would give
      fail_read(path_);
    }
    if (!goes_on(static_cast<double>(at + count) / static_cast<double>(size))) return;
  }
#else
  (void)goes_on;
#endif
}

void File::resize(std::uint64_t bytes) {
  if (uninterrupted([&] { return ftruncate(descriptor(handle_), static_cast<off_t>(bytes)); }) != 0) fail_write(path_);
}

void File::sync() {
  if (uninterrupted([&] { return fsync(descriptor(handle_)); }) != 0) fail_write(path_);
}

void File::write_back([[maybe_unused]] std::uint64_t offset, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef __linux__
  constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  (void)sync_file_range(descriptor(handle_), static_cast<off_t>(offset), static_cast<off_t>(bytes), all);
#endif
}

bool File::try_lock() {
  if (uninterrupted([&] { return flock(descriptor(handle_), LOCK_EX | LOCK_NB); }) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  fail(path_, "cannot be locked", "name a file on a local disk");
}

void File::close() {
  // An interrupted close() has also closed the file: calling it again might close another thread's file.
  if (::close(descriptor(std::exchange(handle_, -1))) != 0 && errno != EINTR) fail_write(path_);
}

// Programs cannot set the second time, whereas `touch` sets the first.
std::string file_state(const std::string& path) {
  struct stat file;
  if (uninterrupted([&] { return ::stat(path.c_str(), &file); }) != 0) fail_open(path);
#ifdef __APPLE__
  const timespec times[] = {file.st_mtimespec, file.st_ctimespec};
#else
  const timespec times[] = {file.st_mtim, file.st_ctim};
#endif
  std::string state = std::to_string(file.st_size) + " bytes, number " + std::to_string(file.st_ino);
  for (const timespec& time : times) state += ", " + std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  return state;
}

void replace_file(const std::string& from, const std::string& to) {
  if (uninterrupted([&] { return std::rename(from.c_str(), to.c_str()); }) != 0)
    fail(to, "cannot be replaced", "check the path and its permissions");
}

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const int file = open_file(folder, O_RDONLY);
  if (file < 0) return;
  uninterrupted([&] { return fsync(file); });
  ::close(file);
}

}  // namespace specdec
