// Counts the allocations of an executable by operator new, on all threads. Include it in one file of the executable
// only.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace allocations {

inline std::atomic<int> count{0};
inline std::atomic<bool> counting{true};

// A scope whose allocations are not counted; with `true`, a nested scope whose allocations are counted again.
class Pause {
 public:
  explicit Pause(bool counts = false) : before_(counting.exchange(counts)) {}
  ~Pause() { counting = before_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  bool before_;
};

inline void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  if (counting) ++count;
  return memory;
}

}  // namespace allocations

// The array and nothrow forms call these.
void* operator new(std::size_t size) { return allocations::counted(std::malloc(size > 0 ? size : 1)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return allocations::counted(std::aligned_alloc(align, (size + align - 1) / align * align));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
