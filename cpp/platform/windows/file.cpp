// platform/file.h on Windows.
#include "platform/file.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "platform/windows/utf16.h"

namespace specdec {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, const char* remedy) {
  throw Error(path + ": " + what + ": " + system_message(GetLastError()) + "; " + remedy);
}
[[noreturn]] void fail_open(const std::string& path) {
  fail(path, "cannot be opened", "check the path and its permissions");
}
[[noreturn]] void fail_write(const std::string& path) {
  fail(path, "cannot be written", "check the disk's free space and limits");
}

HANDLE system_handle(std::intptr_t handle) {
  return reinterpret_cast<HANDLE>(handle);  // NOLINT(performance-no-int-to-ptr)
}

// Returns -1 (INVALID_HANDLE_VALUE) on failure. As on POSIX, an open file may be renamed and removed.
std::intptr_t open_file(const std::string& path, DWORD access, DWORD creation, DWORD flags = FILE_ATTRIBUTE_NORMAL) {
  constexpr DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  HANDLE file = CreateFileW(to_utf16(path).c_str(), access, shared, nullptr, creation, flags, nullptr);
  return reinterpret_cast<std::intptr_t>(file);
}

// A position in a file for ReadFile, WriteFile and LockFileEx.
OVERLAPPED at(std::uint64_t offset) {
  OVERLAPPED position = {};
  position.Offset = static_cast<DWORD>(offset);
  position.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return position;
}

// Is signalled when a read has ended.
class Event {
 public:
  Event() : handle_(CreateEventW(nullptr, TRUE, FALSE, nullptr)) {}
  ~Event() { CloseHandle(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  HANDLE handle() const { return handle_; }

 private:
  HANDLE handle_;
};

DWORD at_once(std::size_t bytes) { return static_cast<DWORD>(std::min<std::size_t>(bytes, 1u << 30)); }

}  // namespace

File File::open(const std::string& path) {
  const std::intptr_t file = open_file(path, GENERIC_READ, OPEN_EXISTING);
  if (file < 0) fail_open(path);
  return {path, file};
}

File File::open_direct(const std::string& path) {
  // Without the second flag the system lets one thread read at a time.
  const std::intptr_t file =
      open_file(path, GENERIC_READ, OPEN_EXISTING, FILE_FLAG_NO_BUFFERING | FILE_FLAG_OVERLAPPED);
  return file < 0 ? open(path) : File(path, file);
}

File File::create(const std::string& path) {
  const std::intptr_t file = open_file(path, GENERIC_READ | GENERIC_WRITE, CREATE_ALWAYS);
  if (file < 0) fail_open(path);
  return {path, file};
}

File File::open_or_create(const std::string& path) {
  const std::intptr_t file = open_file(path, GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS);
  if (file < 0) fail_open(path);
  return {path, file};
}

std::optional<File> File::create_new(const std::string& path) {
  const std::intptr_t file = open_file(path, GENERIC_READ | GENERIC_WRITE, CREATE_NEW);
  if (file < 0 && GetLastError() == ERROR_FILE_EXISTS) return std::nullopt;
  if (file < 0) fail(path, "cannot be created", "check the folder and its permissions");
  return File(path, file);
}

File::~File() {
  if (handle_ != -1) CloseHandle(system_handle(handle_));
}

std::size_t File::read_some(std::uint64_t offset, void* to, std::size_t bytes) const {
  const Event done;
  OVERLAPPED position = at(offset);
  position.hEvent = done.handle();
  DWORD count = 0;
  const bool has_begun = ReadFile(system_handle(handle_), to, at_once(bytes), nullptr, &position) != 0 ||
                         GetLastError() == ERROR_IO_PENDING;
  if (has_begun && GetOverlappedResult(system_handle(handle_), &position, &count, TRUE) != 0) return count;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  fail(path_, "cannot be read", "check the disk");
}

void File::write(std::uint64_t offset, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    OVERLAPPED position = at(offset + done);
    DWORD count = 0;
    const char* const rest = static_cast<const char*>(from) + done;
    if (WriteFile(system_handle(handle_), rest, at_once(bytes - done), &count, &position) == 0 || count == 0)
      fail_write(path_);
    done += count;
  }
}

void File::read_ahead(const std::function<bool(double)>& goes_on) const {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  std::vector<char> part(std::size_t{4} << 20);
  for (std::uint64_t offset = 0; !error && offset < size;) {
    const std::size_t count = read_some(offset, part.data(), part.size());
    offset += count;
    if (count == 0 || !goes_on(static_cast<double>(offset) / static_cast<double>(size))) return;
  }
}

void File::resize(std::uint64_t bytes) {
  FILE_END_OF_FILE_INFO end = {};
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(bytes);
  if (SetFileInformationByHandle(system_handle(handle_), FileEndOfFileInfo, &end, sizeof end) == 0) fail_write(path_);
}

void File::sync() {
  if (FlushFileBuffers(system_handle(handle_)) == 0) fail_write(path_);
}

void File::write_back(std::uint64_t /*offset*/, std::size_t /*bytes*/) noexcept {}

bool File::try_lock() {
  // Others cannot read locked bytes, so this locks a byte far beyond any file's end.
  OVERLAPPED position = at(std::uint64_t{1} << 62);
  if (LockFileEx(system_handle(handle_), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &position) != 0)
    return true;
  if (GetLastError() == ERROR_LOCK_VIOLATION || GetLastError() == ERROR_IO_PENDING) return false;
  fail(path_, "cannot be locked", "name a file on a local disk");
}

void File::close() {
  if (CloseHandle(system_handle(std::exchange(handle_, -1))) == 0) fail_write(path_);
}

std::string file_state(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(std::filesystem::u8path(path), error);
  const auto size = error ? 0 : std::filesystem::file_size(std::filesystem::u8path(path), error);
  if (error) fail_open(path);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return std::to_string(size) + " bytes, " + std::to_string(static_cast<long long>(nanoseconds));
}

void replace_file(const std::string& from, const std::string& to) {
  if (MoveFileExW(to_utf16(from).c_str(), to_utf16(to).c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ==
      0)
    fail(to, "cannot be replaced", "check the path and its permissions, and that no program has it open");
}

void sync_folder_of(const std::string&) {}  // replace_file() waits for the disk

}  // namespace specdec
