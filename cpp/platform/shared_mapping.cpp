#include "platform/shared_mapping.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "platform/huge_pages.h"

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#endif

namespace specdec {

#if defined(__linux__)

namespace {

constexpr int populate_read = 22;  // MADV_POPULATE_READ, since Linux 5.14; older headers lack it

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) throw Error(path + ": cannot be opened; check the path and its permissions");
  }
  ~Descriptor() { ::close(file_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  operator int() const { return file_; }

 private:
  int file_;
};

// What /proc/self/smaps states for the mapping at this address, in KiB.
struct Counts {
  double in_memory = 0.0, in_huge_pages = 0.0;
};

Counts counts_of(const void* data) {
  char begin[2 * sizeof(std::uintptr_t) + 1];
  std::snprintf(begin, sizeof begin, "%llx", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data)));
  std::ifstream maps("/proc/self/smaps");
  Counts counts;
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t dash = line.find('-'), space = line.find(' ');
    if (dash != std::string::npos && dash < space) {
      if (is_here) return counts;
      is_here = line.compare(0, dash, begin) == 0;
    }
    if (!is_here) continue;
    if (line.rfind("Rss:", 0) == 0) counts.in_memory = std::atof(line.c_str() + 4);
    if (line.rfind("FilePmdMapped:", 0) == 0) counts.in_huge_pages = std::atof(line.c_str() + 14);
  }
  return counts;
}

}  // namespace

std::unique_ptr<SharedMapping> SharedMapping::of(const std::string& path, std::uint64_t offset, std::size_t bytes) {
  const Descriptor file(path);
  struct stat status;
  if (fstat(file, &status) != 0 || bytes == 0 || static_cast<std::uint64_t>(status.st_size) != offset + bytes)
    return nullptr;
  // To get an aligned address, reserves a larger range and releases its ends.
  const std::size_t reserved = bytes + huge_page_bytes;
  void* const range = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(range);
  const std::size_t before =
      (huge_page_bytes - reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes) % huge_page_bytes;
  if (before > 0) munmap(begin, before);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t mapped = (bytes + page - 1) / page * page;
  if (before + mapped < reserved) munmap(begin + before + mapped, reserved - before - mapped);
  void* const data = mmap(begin + before, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    munmap(begin + before, mapped);
    return nullptr;
  }
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // pages that are not in memory yet are read as huge pages
#endif
  return std::unique_ptr<SharedMapping>(new SharedMapping(static_cast<const std::uint8_t*>(data), bytes));
}

SharedMapping::~SharedMapping() { munmap(const_cast<std::uint8_t*>(data_), bytes_); }

bool SharedMapping::populate(std::size_t offset, std::size_t bytes) const noexcept {
  int result;
  do result = madvise(const_cast<std::uint8_t*>(data_) + offset, bytes, populate_read);
  while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL;  // an older kernel reads each page on first use
}

bool SharedMapping::is_in_huge_pages() const {
  const Counts counts = counts_of(data_);
  return counts.in_memory > 0.0 && counts.in_huge_pages >= 0.9 * counts.in_memory;
}

// The system moves the pages in one step, so concurrent readers see either the old pages or the new ones.
bool SharedMapping::make_private(std::size_t offset, std::size_t bytes) const noexcept {
  void* const copy = map_huge_pages(bytes);
  if (copy == nullptr) return false;
  auto* const part = const_cast<std::uint8_t*>(data_) + offset;
  std::memcpy(copy, part, bytes);
  if (mprotect(copy, bytes, PROT_READ) == 0 &&
      mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, part) != MAP_FAILED)
    return true;
  unmap_huge_pages(copy, bytes);
  return false;
}

#else

std::unique_ptr<SharedMapping> SharedMapping::of(const std::string&, std::uint64_t, std::size_t) { return nullptr; }
SharedMapping::~SharedMapping() = default;
bool SharedMapping::populate(std::size_t, std::size_t) const noexcept { return false; }
bool SharedMapping::is_in_huge_pages() const { return false; }
bool SharedMapping::make_private(std::size_t, std::size_t) const noexcept { return false; }

#endif

}  // namespace specdec
