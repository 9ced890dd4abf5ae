// A Vulkan layer between the loader and the driver, in which one call fails; with the variables of
// cli/failing_calls.cpp:
//
//   FAULT_CALL=vkQueueSubmit FAULT_AT=3 FAULT_ERRNO=-4 FAULT_COUNT=FILE
//
// The third vkQueueSubmit() of the process returns the VkResult -4 instead of reaching the driver. That is
// VK_ERROR_DEVICE_LOST, after which every later call that waits for the device or gives it work fails, too.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

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

PFN_vkGetInstanceProcAddr instance_function;

struct Device {
  VkDevice device;
  PFN_vkGetDeviceProcAddr function;
};
std::mutex devices_mutex;
std::map<void*, Device> devices;  // by dispatch table, which devices, queues and command buffers point to

template <typename Handle>
void* table_of(Handle handle) {
  return *reinterpret_cast<void**>(handle);
}

template <typename Function, typename Handle>
Function next(Handle handle, const char* name) {
  const std::lock_guard<std::mutex> lock(devices_mutex);
  const Device& device = devices.at(table_of(handle));
  return reinterpret_cast<Function>(device.function(device.device, name));
}

template <const char* name, bool needs_device, typename Function>
struct Call;
template <const char* name, bool needs_device, typename Handle, typename... Arguments>
struct Call<name, needs_device, VkResult(VKAPI_PTR*)(Handle, Arguments...)> {
  static VKAPI_ATTR VkResult VKAPI_CALL run(Handle handle, Arguments... arguments) {
    const VkResult result = failure.of(name, needs_device);
    if (result != VK_SUCCESS) return result;
    return next<VkResult(VKAPI_PTR*)(Handle, Arguments...)>(handle, name)(handle, arguments...);
  }
};

// The link to the next layer in a list of structures.
template <typename Link>
Link* link_of(const void* list, VkStructureType type) {
  for (auto* at = static_cast<VkBaseOutStructure*>(const_cast<void*>(list)); at != nullptr; at = at->pNext) {
    auto* const link = reinterpret_cast<Link*>(at);
    if (at->sType == type && link->function == VK_LAYER_LINK_INFO) return link;
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* memory,
                                               VkInstance* instance) {
  if (const VkResult result = failure.of("vkCreateInstance", false); result != VK_SUCCESS) return result;
  auto* const link = link_of<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  return reinterpret_cast<PFN_vkCreateInstance>(instance_function(nullptr, "vkCreateInstance"))(info, memory, instance);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* memory, VkDevice* device) {
  if (const VkResult result = failure.of("vkCreateDevice", false); result != VK_SUCCESS) return result;
  auto* const link = link_of<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  const PFN_vkGetInstanceProcAddr by_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  const PFN_vkGetDeviceProcAddr by_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(by_instance(nullptr, "vkCreateDevice"));
  const VkResult result = create(physical, info, memory, device);
  const std::lock_guard<std::mutex> lock(devices_mutex);
  if (result == VK_SUCCESS) devices[table_of(*device)] = {*device, by_device};
  return result;
}

PFN_vkVoidFunction intercepted(const char* wanted) {
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

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name) {
  if (const PFN_vkVoidFunction ours = intercepted(name)) return ours;
  return next<PFN_vkVoidFunction>(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_instance(VkInstance instance, const char* name) {
  if (std::strcmp(name, "vkCreateInstance") == 0) return reinterpret_cast<PFN_vkVoidFunction>(&create_instance);
  if (std::strcmp(name, "vkCreateDevice") == 0) return reinterpret_cast<PFN_vkVoidFunction>(&create_device);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(&of_device);
  if (const PFN_vkVoidFunction ours = intercepted(name)) return ours;
  return instance_function == nullptr ? nullptr : instance_function(instance, name);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* layer) {
  layer->loaderLayerInterfaceVersion = 2;
  layer->pfnGetInstanceProcAddr = of_instance;
  layer->pfnGetDeviceProcAddr = of_device;
  layer->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
