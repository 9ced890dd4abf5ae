#include "streaming/slot_memory.h"

#include <new>

#include "platform/file.h"
#include "platform/huge_pages.h"

namespace specdec {
namespace {

std::shared_ptr<std::uint8_t> memory_of(std::size_t bytes) {
  if (void* const pages = map_huge_pages(bytes)) {
    return {static_cast<std::uint8_t*>(pages), [bytes](std::uint8_t* memory) { unmap_huge_pages(memory, bytes); }};
  }
  constexpr std::align_val_t alignment{direct_block_bytes};
  return {static_cast<std::uint8_t*>(::operator new(bytes, alignment)),
          [](std::uint8_t* memory) { ::operator delete(memory, alignment); }};
}

}  // namespace

SlotMemory::SlotMemory(std::size_t num_slots, std::size_t slot_bytes)
    : slot_bytes_(slot_bytes), memory_(memory_of(num_slots * slot_bytes)) {}

}  // namespace specdec
