// Files that are read and written at given positions, and atomic replacement of files. Every function throws a
// specdec::Error that names the file, the system's reason and what to check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace specdec {

// Reads of a file that was opened directly begin at multiples of this, in the file and in memory, and are as long.
constexpr std::size_t direct_block_bytes = 4096;

class File {
 public:
  static File open(const std::string& path);            // to read
  static File open_direct(const std::string& path);     // to read past the system's cache, where it supports this
  static File create(const std::string& path);          // to read and write; old contents are dropped
  static File open_or_create(const std::string& path);  // to read and write; contents are kept
  // To read and write; nullopt if a file of this name exists, perhaps another process's.
  static std::optional<File> create_new(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  // For any thread; offsets count from the start of the file.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;              // throws if the file ends earlier
  [[noreturn]] void fail_short() const;                                            // the error of such an end
  std::size_t read_some(std::uint64_t offset, void* to, std::size_t bytes) const;  // returns how many; 0: the end
  // Throws std::bad_alloc or std::length_error before reading if there is too little memory.
  std::string read_all() const;
  void write(std::uint64_t offset, const void* from, std::size_t bytes);
  // Brings the whole file into the system's memory, so that mapping it does not wait for the disk; does nothing if the
  // system does not support this. Calls goes_on(share done) after each part; false ends reading.
  void read_ahead(const std::function<bool(double)>& goes_on) const;

  void resize(std::uint64_t bytes);  // new bytes are zero
  void sync();                       // returns when everything is on the disk
  // Returns when these bytes are on the disk, so that the system can take their memory back at once: what waits to be
  // written counts in a container's limit. Does nothing where the system knows no parts of files.
  void write_back(std::uint64_t offset, std::size_t bytes) noexcept;
  bool try_lock();  // locks the file until it is closed; false: another process has locked it
  void close();     // reports errors, which the destructor cannot

 private:
  File(std::string path, std::intptr_t handle) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  std::intptr_t handle_;  // the system's; -1: closed
};

// A text that differs after any change of the file, however small, and for any other file: the size, and the times and
// number that the system keeps (Windows: the size and one time). Throws Error.
std::string file_state(const std::string& path);

// Renames `from` to `to`, replacing an old file.
void replace_file(const std::string& from, const std::string& to);

// Returns when the folder's names are on the disk, as far as the system supports this.
void sync_folder_of(const std::string& path);

}  // namespace specdec
