// Files read and written at positions, and put in place of others in one step. Every function throws specdec::Error
// that names the file, the system's reason and what to check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace specdec {

class File {
 public:
  static File open(const std::string& path);            // to read
  static File create(const std::string& path);          // to read and write; what it held is dropped
  static File open_or_create(const std::string& path);  // to read and write; what it holds stays
  // To read and write; null when a file of this name exists, perhaps another process's.
  static std::optional<File> create_new(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  // From any thread; offsets are from the start of the file.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;  // an error when the file ends earlier
  std::size_t read_some(std::uint64_t offset, void* to, std::size_t bytes) const;  // how many; 0: the end
  std::string read_all() const;  // throws std::bad_alloc or std::length_error before it reads if memory is too short
  void write(std::uint64_t offset, const void* from, std::size_t bytes);
  // Brings all of it into the system's memory, so that mapping it does not wait for the disk; does nothing where the
  // system has no way to. goes_on(share done) is asked after each part; false ends it.
  void read_ahead(const std::function<bool(double)>& goes_on) const;

  void resize(std::uint64_t bytes);  // what is new is zero
  void sync();                       // all of it is on the disk when it returns
  bool try_lock();                   // false: another process has locked it. Until it is closed
  void close();                      // reports what the destructor would not

 private:
  File(std::string path, std::intptr_t handle) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  std::intptr_t handle_;  // the system's; -1: closed
};

// Another text after any change of the file, however small, and for another file: its size and the times and number
// that the system keeps (Windows: its size and one time). Throws Error.
std::string file_state(const std::string& path);

// `from` becomes `to`, in place of an old one if there is any.
void replace_file(const std::string& from, const std::string& to);

// The folder's names are on the disk when it returns, as far as the system can do that.
void sync_folder_of(const std::string& path);

}  // namespace specdec
