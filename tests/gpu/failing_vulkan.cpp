// A Vulkan layer between the loader and the driver, in which one call fails; with the variables of
// cli/failing_calls.cpp:
//
//   FAULT_CALL=vkQueueSubmit FAULT_AT=3 FAULT_ERRNO=-4 FAULT_COUNT=FILE
//
// The third vkQueueSubmit() of the process returns the VkResult -4 instead of reaching the driver. That is
// VK_ERROR_DEVICE_LOST, after which every later call that waits for the device or gives it work fails, too.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "vulkan_layer.h"

namespace {

class Failure {
 public:
  Failure() {
    const char *const call = std::getenv("FAULT_CALL"), *const at = std::getenv("FAULT_AT"),
                      *const error = std::getenv("FAULT_ERRNO");
    if (call == nullptr || at == nullptr || error == nullptr) return;
    call_ = call;
    at_ = std::atol(at);
    result_ = static_cast<VkResult>(std::atoi(error));
  }
  ~Failure() {
    const char* const path = std::getenv("FAULT_COUNT");
    std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return;
    std::fprintf(file, "%ld", count_);
    std::fclose(file);
  }

  // What this call returns; VK_SUCCESS: what the driver does.
  VkResult of(const char* call, bool needs_device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_lost_ && needs_device) return VK_ERROR_DEVICE_LOST;
    if (call_ != call || ++count_ != at_) return VK_SUCCESS;
    is_lost_ = result_ == VK_ERROR_DEVICE_LOST;
    return result_;
  }

 private:
  std::mutex mutex_;
  std::string call_;
  long at_ = 0, count_ = 0;
  VkResult result_ = VK_SUCCESS;
  bool is_lost_ = false;
};

Failure failure;

template <const char* name, bool needs_device, typename Function>
struct Call;
template <const char* name, bool needs_device, typename Handle, typename... Arguments>
struct Call<name, needs_device, VkResult(VKAPI_PTR*)(Handle, Arguments...)> {
  static VKAPI_ATTR VkResult VKAPI_CALL run(Handle handle, Arguments... arguments) {
    const VkResult result = failure.of(name, needs_device);
    if (result != VK_SUCCESS) return result;
    return layer::next<VkResult(VKAPI_PTR*)(Handle, Arguments...)>(handle, name)(handle, arguments...);
  }
};

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* memory,
                                               VkInstance* instance) {
  const VkResult result = failure.of("vkCreateInstance", false);
  return result != VK_SUCCESS ? result : layer::create_instance(info, memory, instance);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* memory, VkDevice* device) {
  const VkResult result = failure.of("vkCreateDevice", false);
  return result != VK_SUCCESS ? result : layer::create_device(physical, info, memory, device);
}

}  // namespace

PFN_vkVoidFunction intercepted(const char* wanted) {
  if (const auto ours = layer::if_named(wanted, "vkCreateInstance", &create_instance)) return ours;
  if (const auto ours = layer::if_named(wanted, "vkCreateDevice", &create_device)) return ours;
#define CALL(name, needs_device)                                                                      \
  static constexpr char text_##name[] = "vk" #name;                                                   \
  if (std::strcmp(wanted, text_##name) == 0) {                                                        \
    return reinterpret_cast<PFN_vkVoidFunction>(&Call<text_##name, needs_device, PFN_vk##name>::run); \
  }
  CALL(AllocateCommandBuffers, false)
  CALL(AllocateDescriptorSets, false)
  CALL(AllocateMemory, false)
  CALL(BeginCommandBuffer, false)
  CALL(BindBufferMemory, false)
  CALL(CreateBuffer, false)
  CALL(CreateCommandPool, false)
  CALL(CreateComputePipelines, true)
  CALL(CreateDescriptorPool, false)
  CALL(CreateDescriptorSetLayout, false)
  CALL(CreateFence, false)
  CALL(CreatePipelineLayout, false)
  CALL(CreateSemaphore, false)
  CALL(CreateShaderModule, false)
  CALL(EndCommandBuffer, false)
  CALL(GetFenceStatus, true)
  CALL(MapMemory, true)
  CALL(QueueSubmit, true)
  CALL(QueueWaitIdle, true)
  CALL(ResetCommandPool, false)
  CALL(ResetEvent, false)
  CALL(ResetFences, false)
  CALL(WaitForFences, true)
  CALL(WaitSemaphores, true)
#undef CALL
  return nullptr;
}
