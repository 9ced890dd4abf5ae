#include "llama/lost_devices.h"

#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/failed_assertions.h"
#include "base/utf8.h"
#include "ggml-backend.h"

namespace specdec {
namespace {

struct Lost {
  std::mutex mutex;
  std::map<ggml_backend_device*, std::string> what;  // by device
  std::vector<std::shared_ptr<const void>> kept;
};

Lost& lost() {
  static auto& never_destroyed = *new Lost;
  return never_destroyed;
}

}  // namespace

bool finish(const std::vector<ggml_backend_device*>& devices, const std::string& error,
            const std::function<void()>& synchronize) {
  if (!lost_problem(devices).empty()) return false;
  try {
    if (error.find("ErrorDeviceLost") != std::string::npos) throw std::runtime_error(error);  // Vulkan's name for it
    const AbortsAsErrors guard;
    synchronize();
    return true;
  } catch (const std::runtime_error& failure) {
    const std::lock_guard<std::mutex> lock(lost().mutex);
    for (ggml_backend_device* device : devices) lost().what.emplace(device, printable(failure.what()));
    return false;
  }
}

bool is_lost(ggml_backend_device* device) { return !lost_problem({device}).empty(); }

std::string lost_problem(const std::vector<ggml_backend_device*>& devices) {
  const std::lock_guard<std::mutex> lock(lost().mutex);
  for (ggml_backend_device* device : devices) {
    const auto found = lost().what.find(device);
    if (found == lost().what.end()) continue;
    return printable(ggml_backend_dev_name(device)) + " was lost (" + found->second + "); start the program again";
  }
  return "";
}

void keep(std::shared_ptr<const void> object) {
  const std::lock_guard<std::mutex> lock(lost().mutex);
  lost().kept.push_back(std::move(object));
}

}  // namespace specdec
