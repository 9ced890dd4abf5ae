#include "streaming/direct_reads.h"

#include <exception>

namespace specdec {

const std::uint8_t* read_directly(const File& file, std::uint64_t offset, std::size_t bytes, std::uint8_t* memory) {
  const std::uint64_t start = offset / direct_block_bytes * direct_block_bytes;
  const auto skip = static_cast<std::size_t>(offset - start);
  const std::size_t wanted = skip + bytes, whole = direct_bytes_for(wanted) - direct_block_bytes;
  for (std::size_t done = 0; done < wanted;) {
    const std::size_t count = file.read_some(start + done, memory + done, whole - done), before = done;
    done += count;
    if (done < wanted) done = done / direct_block_bytes * direct_block_bytes;  // the next read begins with a block
    if (done == before) file.fail_short();
  }
  return memory + skip;
}

DirectFiles::DirectFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) files_.push_back(File::open_direct(path));
}

const std::uint8_t* DirectFiles::read(const FileRange& range, std::uint8_t* memory) const {
  return read_directly(files_[range.file], range.offset, range.bytes, memory);
}

const std::uint8_t* DirectFiles::try_read(const FileRange& range, std::uint8_t* memory, std::string& problem) const {
  try {
    return read(range, memory);
  } catch (const std::exception& error) {
    problem = error.what();
    return nullptr;
  }
}

}  // namespace specdec
