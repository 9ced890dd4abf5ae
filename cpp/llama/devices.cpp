#include "llama/devices.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <stdexcept>

#include "base/format.h"
#include "base/utf8.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "llama/device_modules.h"
#include "llama/lost_devices.h"

namespace specdec {
namespace {

std::string gibibytes(std::uint64_t bytes) { return format("%.1f", static_cast<double>(bytes) / (1 << 30)); }

Device device_of(ggml_backend_dev_t handle) {
  std::size_t free = 0, total = 0;
  ggml_backend_dev_memory(handle, &free, &total);
  const char* const description = ggml_backend_dev_description(handle);
  return {handle,
          printable(ggml_backend_dev_name(handle)),
          printable(description == nullptr ? "" : description),
          ggml_backend_dev_type(handle) == GGML_BACKEND_DEVICE_TYPE_IGPU,
          free,
          total};
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> found;
  for (ggml_backend_dev_t handle : device_modules().devices) {
    if (!is_lost(handle)) found.push_back(device_of(handle));
  }
  return found;
}

std::string device_problems() {
  const DeviceModules& modules = device_modules();
  std::string text;
  for (const std::string& problem : modules.problems) text += (text.empty() ? "" : "; ") + problem;
  const std::string lost = lost_problem(modules.devices);
  if (!lost.empty()) text += (text.empty() ? "" : "; ") + lost;
  if (text.empty() && modules.devices.empty()) text = "no device module is installed (docs/devices.md)";
  return text;
}

bool can_hold(const Device& device, std::uint64_t bytes) {
  constexpr std::uint64_t least = 128 << 20;  // of maxStorageBufferRange; asking would make the device
  if (bytes <= least) return true;
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
  ggml_tensor tensor{};
  tensor.type = GGML_TYPE_F32;
  tensor.op = GGML_OP_NONE;
  std::fill(std::begin(tensor.ne), std::end(tensor.ne), 1);
  tensor.ne[0] = elements;
  tensor.nb[0] = sizeof(float);
  std::fill(std::begin(tensor.nb) + 1, std::end(tensor.nb), bytes);
  try {
    return ggml_backend_dev_supports_op(device.handle, &tensor);
  } catch (const std::runtime_error&) {  // a device that fails does so again when it is used, which names it
    return true;
  }
}

std::string text(const Device& device) {
  return device.name + ": " + device.description + ", " + gibibytes(device.free_bytes) + " of " +
         gibibytes(device.total_bytes) + " GiB free";
}

std::vector<Device> choose_devices(const std::vector<std::string>& names) {
  if (names.size() == 1 && lower_case(names.front()) == "none") return {};
  const std::vector<Device> found = devices();
  std::vector<Device> chosen;
  for (const std::string& name : names) {
    const auto is_it = [&](const Device& device) { return lower_case(device.name) == lower_case(name); };
    const auto device = std::find_if(found.begin(), found.end(), is_it);
    if (device == found.end()) {
      std::string there;
      for (const Device& one : found) there += (there.empty() ? "there are " : ", ") + one.name;
      const std::string problems = found.empty() ? device_problems() : lost_problem(device_modules().devices);
      if (!problems.empty()) there += (there.empty() ? "" : "; ") + problems;
      throw std::invalid_argument("there is no device " + printable(name) + ": " + there);
    }
    if (std::any_of(chosen.begin(), chosen.end(), is_it)) {
      throw std::invalid_argument("device " + printable(name) + " is given twice");
    }
    chosen.push_back(*device);
  }
  if (!names.empty()) return chosen;
  for (const Device& device : found) {
    if (!device.is_integrated) chosen.push_back(device);
  }
  if (chosen.empty() && !found.empty()) chosen.push_back(found.front());
  return chosen;
}

}  // namespace specdec
