// The devices other than the CPU that layers can run on (device_modules.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct ggml_backend_device;

namespace specdec {

struct Device {
  ggml_backend_device* handle;
  std::string name;         // "Vulkan0"
  std::string description;  // what its driver calls it
  bool is_integrated;       // it shares the memory of the CPU
  std::uint64_t free_bytes, total_bytes;
};

// Of those that are there; loads the modules.
std::vector<Device> devices();
// Why there is none, in a sentence; or what could not be used.
std::string device_problems();

// By name, in this order; names may differ in case. No names: all that are not integrated, else the first one.
// "none" alone: none. Throws std::invalid_argument that lists those that are there.
std::vector<Device> choose_devices(const std::vector<std::string>& names);

// "Vulkan0: AMD Radeon RX 7800 XT (RADV NAVI32), 15.2 of 16.0 GiB free"
std::string text(const Device& device);

}  // namespace specdec
