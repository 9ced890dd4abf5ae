// A part of a file mapped to be read: its pages belong to the system, which shares them between processes and takes
// them back when memory is short. At an address aligned to huge pages (platform/huge_pages.h), of which the file's
// pages are, if its file system can have such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace specdec {

class SharedMapping {
 public:
  // Null: the system cannot do it (other systems than Linux), or the file does not end this many bytes after
  // `offset`, a multiple of huge_page_bytes. Throws Error if the file cannot be opened.
  static std::unique_ptr<SharedMapping> of(const std::string& path, std::uint64_t offset, std::size_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  const std::uint8_t* data() const { return data_; }
  // Reads a part into memory, from any thread; what is there already costs little. `offset` is a multiple of
  // huge_page_bytes. False: the disk fails, or the file became shorter.
  bool populate(std::size_t offset, std::size_t bytes) const noexcept;
  // Whether most of what was read lies in huge pages.
  bool is_in_huge_pages() const;
  // Puts private memory in huge pages, with the same bytes, in place of a part, both multiples of huge_page_bytes,
  // while other threads read it. False: there is no memory for it.
  bool make_private(std::size_t offset, std::size_t bytes) const noexcept;

 private:
  SharedMapping(const std::uint8_t* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  const std::uint8_t* data_;
  std::size_t bytes_;
};

}  // namespace specdec
