// What a Vulkan layer, between the loader and the driver, consists of beside what it is for: it hands calls on, except
// those that intercepted(), which a layer defines, has functions for.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

// The layer's own function instead of this one; nullptr: it is handed on.
PFN_vkVoidFunction intercepted(const char* name);

namespace layer {
namespace {  // not shared between layers

struct Device {
  VkDevice device;
  PFN_vkGetDeviceProcAddr function;
};

PFN_vkGetInstanceProcAddr instance_function;
// The next layer's. They are asked for when the instance is made: later, Debian 12's loader answers with this layer's.
PFN_vkGetPhysicalDeviceProperties get_properties;
PFN_vkGetPhysicalDeviceProperties2 get_properties2;
std::mutex devices_mutex;
std::map<void*, Device> devices;  // by dispatch table, which devices, queues and command buffers point to

template <typename Handle>
void* table_of(Handle handle) {
  return *reinterpret_cast<void**>(handle);
}

template <typename Function>
PFN_vkVoidFunction if_named(const char* name, const char* wanted, Function ours) {
  return std::strcmp(name, wanted) == 0 ? reinterpret_cast<PFN_vkVoidFunction>(ours) : nullptr;
}

// What the next layer or the driver has for a device, queue or command buffer.
template <typename Function, typename Handle>
Function next(Handle handle, const char* name) {
  const std::lock_guard<std::mutex> lock(devices_mutex);
  const Device& device = devices.at(table_of(handle));
  return reinterpret_cast<Function>(device.function(device.device, name));
}

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
                                               VkInstance* made) {
  auto* const link = link_of<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const VkResult result =
      reinterpret_cast<PFN_vkCreateInstance>(instance_function(nullptr, "vkCreateInstance"))(info, memory, made);
  if (result != VK_SUCCESS) return result;
  get_properties =
      reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(instance_function(*made, "vkGetPhysicalDeviceProperties"));
  get_properties2 =
      reinterpret_cast<PFN_vkGetPhysicalDeviceProperties2>(instance_function(*made, "vkGetPhysicalDeviceProperties2"));
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* memory, VkDevice* device) {
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

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name) {
  if (const PFN_vkVoidFunction ours = intercepted(name)) return ours;
  return next<PFN_vkVoidFunction>(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_instance(VkInstance of, const char* name) {
  if (const PFN_vkVoidFunction ours = intercepted(name)) return ours;
  if (const auto ours = if_named(name, "vkCreateInstance", &create_instance)) return ours;
  if (const auto ours = if_named(name, "vkCreateDevice", &create_device)) return ours;
  if (const auto ours = if_named(name, "vkGetDeviceProcAddr", &of_device)) return ours;
  return instance_function == nullptr ? nullptr : instance_function(of, name);
}

}  // namespace
}  // namespace layer

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* interface) {
  interface->loaderLayerInterfaceVersion = 2;
  interface->pfnGetInstanceProcAddr = layer::of_instance;
  interface->pfnGetDeviceProcAddr = layer::of_device;
  interface->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
