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
  std::string description;  // the driver's name for it
  bool is_integrated;       // it shares the memory of the CPU
  std::uint64_t free_bytes, total_bytes;
};

// The devices of this machine that are not lost; loads the modules.
std::vector<Device> devices();
// A sentence that says why there is none, or what could not be used.
std::string device_problems();

// The devices with these names, in this order; case does not matter. No names: all that are not integrated, or else the
// first one. Only "none": none. Throws std::invalid_argument that lists the devices.
std::vector<Device> choose_devices(const std::vector<std::string>& names);

// Whether the driver admits a tensor of this size.
bool can_hold(const Device& device, std::uint64_t bytes);

// "Vulkan0: AMD Radeon RX 7800 XT (RADV NAVI32), 15.2 of 16.0 GiB free"
std::string text(const Device& device);

}  // namespace specdec
