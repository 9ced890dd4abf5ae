// Devices that their driver has given up: reset, unplugged, suspended. They do not come back within a process, and
// freeing what they hold may end it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

struct ggml_backend_device;

namespace specdec {

// Called after a call failed with this error, or before what uses the devices is freed (no error). Calls synchronize(),
// which waits for what was begun, so that nothing of it is left for the next call. Returns false if the devices are
// lost: the error says so, or that fails, too.
bool finish(const std::vector<ggml_backend_device*>& devices, const std::string& error,
            const std::function<void()>& synchronize);
bool is_lost(ggml_backend_device* device);
// "Vulkan0 was lost (vk::Queue::submit: ErrorDeviceLost); start the program again". Empty: none of the devices is lost.
std::string lost_problem(const std::vector<ggml_backend_device*>& devices);

// Never frees the object.
void keep(std::shared_ptr<const void> object);

}  // namespace specdec
