#include "llama/device_modules.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "base/failed_assertions.h"
#include "base/utf8.h"
#include "device_module.h"
#include "ggml-backend.h"
#include "llama/backend.h"
#include "platform/executable.h"
#include "platform/library.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr const char* backends[] = {"cuda", "vulkan", "metal"};

// The prefix P of P/bin/specdec and of P/lib/python3.11/site-packages/specdec_native/_core.so; empty if the file is not
// installed. Other folders above a file may belong to anybody (/tmp).
fs::path prefix_of(const fs::path& file) {
  const fs::path folder = file.parent_path();
  fs::path parent = folder.parent_path();
  const auto is_called = [](const fs::path& place, const char* name) {
    return lower_case(place.filename().u8string()) == name;
  };
  if (is_called(folder, "bin") || is_called(folder, "scripts")) return parent;
  if (!is_called(parent, "site-packages") && !is_called(parent, "dist-packages")) return {};
  for (fs::path above = parent.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (is_called(above, "lib")) return above.parent_path();
  }
  return {};
}

std::vector<fs::path> folders() {
  if (const char* named = std::getenv("SPECDEC_DEVICE_MODULES"); named != nullptr && *named != '\0') return {named};
  std::vector<fs::path> found;
  for (const fs::path& file : {executable_path(), code_path()}) {
    found.push_back(file.parent_path());
    if (const fs::path prefix = prefix_of(file); !prefix.empty()) found.push_back(prefix / "lib" / "specdec");
  }
  return found;
}

fs::path file_of(const std::string& backend) {
  for (const fs::path& folder : folders()) {
    std::error_code ignored;
    const fs::path file = folder / ("specdec-" + backend + SPECDEC_MODULE_SUFFIX);
    if (!folder.empty() && fs::is_regular_file(file, ignored)) return fs::absolute(file, ignored);
  }
  return {};
}

// In a module, no other thread waits for the one that fails.
void on_module_abort(const char* message) {
  if (AbortsAsErrors::exists()) throw std::runtime_error(message);
  print_abort(message);
}

// The module stays loaded: drivers do not expect to be unloaded.
ggml_backend_reg_t open_module(const fs::path& file) {
  void* const library = open_library(file.u8string().c_str());
  if (library == nullptr) throw std::runtime_error("the system cannot load it: " + library_problem());
  const auto entry = reinterpret_cast<specdec_device_module_entry>(find_symbol(library, SPECDEC_MODULE_ENTRY));
  if (entry == nullptr) throw std::runtime_error("it is not a module of specdec");
  const specdec_device_module& module = *entry();
  if (std::string(module.sources) != SPECDEC_MODULE_SOURCES) {
    throw std::runtime_error("it was built from " + std::string(module.sources) + ", this program from " +
                             SPECDEC_MODULE_SOURCES + "; install both from one release");
  }
  module.set_log([](ggml_log_level level, const char* text, void*) { log_of_llama(level, text); }, nullptr);
  module.set_abort(on_module_abort);
  const AbortsAsErrors guard;
  ggml_backend_reg_t registry = module.open();
  if (registry == nullptr) throw std::runtime_error("its driver cannot run here");
  return registry;
}

DeviceModules load() {
  start_backend();
  DeviceModules loaded;
  for (const char* backend : backends) {
    const fs::path file = file_of(backend);
    if (file.empty()) continue;
    try {
      ggml_backend_reg_t registry = open_module(file);
      const std::size_t count = ggml_backend_reg_dev_count(registry);
      for (std::size_t i = 0; i < count; ++i) loaded.devices.push_back(ggml_backend_reg_dev_get(registry, i));
      if (count == 0) loaded.problems.push_back(printable(file.filename().u8string()) + " finds no device");
    } catch (const std::exception& problem) {
      loaded.problems.push_back(printable(file.u8string() + ": " + problem.what()));
    }
    take_backend_errors();
  }
  return loaded;
}

}  // namespace

const DeviceModules& device_modules() {
  static const DeviceModules modules = load();
  return modules;
}

}  // namespace specdec
