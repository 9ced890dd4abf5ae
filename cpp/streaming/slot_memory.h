// Memory that direct reads can fill, in slots of equal size, in huge pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace specdec {

class SlotMemory {
 public:
  SlotMemory(std::size_t num_slots, std::size_t slot_bytes);  // slot_bytes: a multiple of direct_block_bytes
  std::uint8_t* slot(std::size_t index) const { return memory_.get() + index * slot_bytes_; }
  std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  std::size_t slot_bytes_;
  std::shared_ptr<std::uint8_t> memory_;
};

}  // namespace specdec
