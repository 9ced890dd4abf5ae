// A part of a file mapped for reading: its pages belong to the system, which shares them between processes and takes
// them back when memory is short. The address is aligned to huge pages (platform/huge_pages.h), and the file's pages
// are huge if the file system supports them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace specdec {

class SharedMapping {
 public:
  // Returns null if the system does not support this (only Linux does), or if the file does not end exactly `bytes`
  // after `offset`. `offset` is a multiple of huge_page_bytes. Throws Error if the file cannot be opened.
  static std::unique_ptr<SharedMapping> of(const std::string& path, std::uint64_t offset, std::size_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  const std::uint8_t* data() const { return data_; }
  // Reads a part into memory, on any thread; pages already there cost little. `offset` is a multiple of
  // huge_page_bytes. Returns false if the disk fails or the file became shorter.
  bool populate(std::size_t offset, std::size_t bytes) const noexcept;
  // Whether most pages that were read are huge.
  bool is_in_huge_pages() const;
  // Replaces a part (offset and bytes multiples of huge_page_bytes) by private memory with the same bytes in huge
  // pages, while other threads may read it. Returns false if there is no memory for it.
  bool make_private(std::size_t offset, std::size_t bytes) const noexcept;

 private:
  SharedMapping(const std::uint8_t* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  const std::uint8_t* data_;
  std::size_t bytes_;
};

}  // namespace specdec
