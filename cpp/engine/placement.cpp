#include "engine/placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/index.h"
#include "base/utf8.h"
#include "engine/option.h"
#include "gguf/types.h"
#include "llama/device_speed.h"
#include "platform/memory.h"

namespace specdec {
namespace {

std::string names(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& device : devices) {
    text += (text.empty() ? "" : " and ") + device.name + " (" + device.description + ")";
  }
  return text;
}

std::string file_name(const std::vector<GgufFile>& parts) {
  return printable(std::filesystem::path(parts.front().path).filename().string());
}

std::uint64_t free_bytes(const std::vector<Device>& devices) {
  std::uint64_t bytes = 0;
  for (const Device& device : devices) bytes += device.free_bytes;
  return bytes;
}

}  // namespace

std::uint64_t LayerNeed::of_last(int count) const {
  if (count <= 0) return 0;
  std::uint64_t bytes = scratch + output;
  for (int i = 1; i < count && i <= num_layers(); ++i) bytes += weights[idx(num_layers() - i)] + cache;
  return bytes;
}

LayerNeed layer_need(const std::vector<GgufFile>& parts, const Offload& offload, std::uint64_t cells, KvType type,
                     int pass_tokens, int most_rows) {
  Offload everything = offload;
  everything.num_layers = all_layers;
  everything.devices = {nullptr};
  const OffloadedTensors offloaded(parts, everything);
  const GgufFile& first = parts.front();
  const std::string architecture = first.string("general.architecture").value_or("");
  const auto metadata = [&](const char* key) { return first.integer(architecture + "." + key).value_or(0); };
  LayerNeed need;
  need.weights.resize(static_cast<std::size_t>(std::min<std::uint64_t>(metadata("block_count"), 1 << 16)));
  std::uint64_t vocabulary = 0;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      // MXFP6 becomes Q8_0 (llama/q8_0_copy.h).
      const std::uint64_t converted = is_mxfp6(tensor.type) ? tensor.elements() / 32 * 34 : tensor.bytes;
      const std::uint64_t bytes = offloaded.contain(tensor.name) ? converted : 0;
      const int layer = layer_of(tensor.name);
      if (layer >= 0 && layer < need.num_layers()) need.weights[idx(layer)] += bytes;
      if (tensor.name == "output.weight") need.output = bytes;
      if (tensor.name != "token_embd.weight" || tensor.shape.size() < 2) continue;
      vocabulary = tensor.shape[1];
      if (find_tensor(parts, "output.weight") == nullptr) need.output = bytes;
    }
  }
  const CacheShape shape = CacheShape::of(first);
  const auto layers = static_cast<std::uint64_t>(std::max(1, need.num_layers()));
  need.cache = shape.bytes(cells, type) / layers;
  constexpr std::uint64_t fixed = 64 << 20;  // bytes that drivers and kernels take
  need.scratch = fixed + vocabulary * static_cast<std::uint64_t>(most_rows) * sizeof(float) +
                 static_cast<std::uint64_t>(pass_tokens) * sizeof(float) *
                     (10 * metadata("embedding_length") + 3 * metadata("feed_forward_length"));
  return need;
}

int layers_in(const LayerNeed& need, std::uint64_t bytes) {
  int count = need.num_layers() + 1;
  while (count > 0 && need.of_last(count) > bytes) --count;
  return count;
}

DefaultPlace default_place(const std::string& device, double device_seconds, double cpu_seconds) {
  constexpr double least_gain = 1.25;  // less is noise, or a draft on the CPU makes up for it
  const double gain = cpu_seconds / device_seconds;
  DefaultPlace place;
  place.is_device = gain >= least_gain;
  place.why = device + " multiplies " + format("%.2g", gain) + " times as fast as the CPU";
  return place;
}

DefaultPlace default_place(int num_threads, bool exact) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, DefaultPlace> measured;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [at, is_new] = measured.try_emplace({num_threads, exact});
  if (!is_new) return at->second;
  const std::vector<Device> found = choose_devices({});
  if (found.empty()) return at->second;
  const double on_cpu = seconds_of_product(nullptr, 1, num_threads);
  const double small_products = 4;  // times as slow as large ones, at most, since a device needs time to start
  const double on_device =
      seconds_of_product(found.front().handle, exact ? exact_width : 1, num_threads, small_products * on_cpu);
  at->second = default_place(found.front().name + " (" + found.front().description + ")", on_device, on_cpu);
  return at->second;
}

std::vector<Offload::Override> overrides_of(const GeneratorOptions& options) {
  std::vector<Offload::Override> overrides;
  for (const std::string& text : options.override_tensor) {
    const auto [pattern, place] = parse_override(text);
    const bool is_cpu = place == "CPU" || place == "cpu";
    overrides.push_back({pattern, is_cpu ? nullptr : choose_devices({place}).front().handle});
  }
  for (const Offload::Override& experts : experts_on_the_cpu(options.n_cpu_moe)) overrides.push_back(experts);
  return overrides;
}

std::vector<float> split_of(const GeneratorOptions& options) {
  std::vector<float> split;
  std::istringstream parts(options.tensor_split);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const float number = std::strtof(part.c_str(), &end);
    if (end == part.c_str() || *end != '\0' || !(number >= 0.0f) || split.size() >= 16) {
      throw std::invalid_argument("tensor_split is \"" + printable(options.tensor_split) +
                                  "\"; it must be numbers from 0, a part for each device");
    }
    split.push_back(number);
  }
  return split;
}

std::vector<ggml_backend_device*> Placement::handles() const {
  std::vector<ggml_backend_device*> result;
  for (const Device& device : devices) result.push_back(device.handle);
  return result;
}

Placement place(const std::vector<GgufFile>& parts, const LayerNeed& need, int wanted,
                const std::vector<std::string>& device_names, std::uint64_t taken) {
  Placement placement;
  if (wanted == 0) return placement;
  std::vector<Device> found = choose_devices(device_names);
  const int all = need.num_layers() + 1;
  const std::string file = file_name(parts);
  if (found.empty()) {
    if (device_names.empty()) placement.note = "n_gpu_layers (-ngl) has no effect: no device: " + device_problems();
    return placement;
  }
  // Drivers that do not report memory report a total of 0 bytes.
  const bool is_known = std::all_of(found.begin(), found.end(), [](const Device& one) { return one.total_bytes > 0; });
  const std::uint64_t free = free_bytes(found), left = free > taken ? free - taken : 0;
  const int most = is_known ? layers_in(need, left - left / 20) : all;
  const int asked = wanted < 0 ? all : std::min(wanted, all);
  if (wanted != layers_that_fit && asked > most) {
    throw ModelError(parts.front().path + ": not enough memory on " + names(found) + " for " + std::to_string(asked) +
                     " layers: " + mebibytes(need.of_last(asked)) + " needed (weights, caches, scratch), " +
                     mebibytes(left) + " free. Ask for at most " + std::to_string(most) +
                     " layers (n_gpu_layers, -ngl), \"auto\" for as many as fit, or a shorter context (n_ctx, -c)");
  }
  placement.num_layers = std::min(asked, most);
  if (placement.num_layers == 0) {
    placement.note = file + " runs on the CPU: no layer of it fits into the memory of " + names(found) + ", of which " +
                     mebibytes(left) + " are free";
    return placement;
  }
  placement.devices = std::move(found);
  const std::uint64_t caches = need.cache * static_cast<std::uint64_t>(placement.num_layers - 1);
  placement.text = std::to_string(placement.num_layers) + " of " + std::to_string(all) + " layers of " + file +
                   " run on " + names(placement.devices) + ": " +
                   mebibytes(need.of_last(placement.num_layers) - caches - need.scratch) + " of weights, " +
                   mebibytes(caches) + " of caches, " + mebibytes(left) + " were free";
  return placement;
}

}  // namespace specdec
