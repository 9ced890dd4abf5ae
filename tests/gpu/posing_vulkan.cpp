// A Vulkan layer that makes a software device pose as a vendor's GPU: llama.cpp then takes the ways that it takes for
// this vendor, and multiplies weights with activations that are rounded to int8.
//
//   POSE_VENDOR=0x10de   (its PCI number)
#include <cstdlib>

#include "vulkan_layer.h"

namespace {

constexpr char name_of_device[] = "posing device";

void pose(VkPhysicalDeviceProperties& properties) {
  const char* const vendor = std::getenv("POSE_VENDOR");
  if (vendor != nullptr) properties.vendorID = static_cast<std::uint32_t>(std::strtoul(vendor, nullptr, 16));
  std::memcpy(properties.deviceName, name_of_device, sizeof name_of_device);
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* properties) {
  layer::get_properties(device, properties);
  pose(*properties);
}

VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
  layer::get_properties2(device, properties);
  pose(properties->properties);
  for (auto* at = static_cast<VkBaseOutStructure*>(properties->pNext); at != nullptr; at = at->pNext) {
    if (at->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES) continue;
    auto& products = *reinterpret_cast<VkPhysicalDeviceShaderIntegerDotProductProperties*>(at);
    products.integerDotProduct4x8BitPackedSignedAccelerated = VK_TRUE;
  }
}

}  // namespace

PFN_vkVoidFunction intercepted(const char* name) {
  if (const auto ours = layer::if_named(name, "vkGetPhysicalDeviceProperties", &get_properties)) return ours;
  return layer::if_named(name, "vkGetPhysicalDeviceProperties2", &get_properties2);
}
