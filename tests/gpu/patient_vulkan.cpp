// A Vulkan layer for software devices, which need the core that llama.cpp would ask for a fence's state with, again and
// again: each question waits for the fence for up to a millisecond.
#include "vulkan_layer.h"

namespace {

VKAPI_ATTR VkResult VKAPI_CALL wait_for_state(VkDevice device, VkFence fence) {
  constexpr std::uint64_t nanoseconds = 1000000;
  const auto wait = layer::next<PFN_vkWaitForFences>(device, "vkWaitForFences");
  const VkResult result = wait(device, 1, &fence, VK_TRUE, nanoseconds);
  return result == VK_TIMEOUT ? VK_NOT_READY : result;
}

}  // namespace

PFN_vkVoidFunction intercepted(const char* name) { return layer::if_named(name, "vkGetFenceStatus", &wait_for_state); }
