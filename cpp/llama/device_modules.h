// ggml's device backends (Vulkan, CUDA, Metal), each a module in a file of its own, which is loaded when a device is
// asked for. Without the file, or where it cannot run, everything else works.
#pragma once

#include <string>
#include <vector>

struct ggml_backend_device;

namespace specdec {

struct DeviceModules {
  std::vector<ggml_backend_device*> devices;  // owned by the modules, for the life of the process
  std::vector<std::string> problems;          // of files that could not be used, a sentence each
};

// Loads the modules that are next to the program or the Python extension, in lib/specdec of the prefix where these are
// installed, or in the folder that the environment variable SPECDEC_DEVICE_MODULES names; once.
const DeviceModules& device_modules();

}  // namespace specdec
