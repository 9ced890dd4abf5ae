// ggml's device backends (Vulkan, CUDA, Metal). Each is a module in a file of its own, loaded before the first model
// unless devices are disabled. If the file is missing or cannot run, everything else still works.
#pragma once

#include <string>
#include <vector>

struct ggml_backend_device;

namespace specdec {

struct DeviceModules {
  std::vector<ggml_backend_device*> devices;  // owned by the modules, for the life of the process
  std::vector<std::string> problems;          // a sentence for each file that could not be used
};

// Loads, once, the modules next to the program or the Python extension, in lib/specdec of the prefix where these are
// installed, or in the folder that the environment variable SPECDEC_DEVICE_MODULES names.
const DeviceModules& device_modules();

}  // namespace specdec
