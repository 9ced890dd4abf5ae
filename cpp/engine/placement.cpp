#include "engine/placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/index.h"
#include "base/utf8.h"
#include "base/weight_types.h"
#include "engine/option.h"
#include "llama/device_speed.h"
#include "llama/invariant_kernels.h"
#include "platform/memory.h"

namespace specdec {
namespace {

std::string text_of(const Device& device) { return device.name + " (" + device.description + ")"; }

bool is_cpu(const std::string& place) { return place == "CPU" || place == "cpu"; }

std::string names(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& device : devices) text += (text.empty() ? "" : " and ") + text_of(device);
  return text;
}

std::string file_name(const std::vector<GgufFile>& parts) {
  return printable(std::filesystem::path(parts.front().path).filename().string());
}

// A driver that does not report its memory reports a total of 0 bytes.
std::vector<std::uint64_t> room_on(const std::vector<Device>& devices, const BytesOnDevices& taken) {
  std::vector<std::uint64_t> room;
  for (const Device& device : devices) {
    const auto found = taken.find(device.handle);
    const std::uint64_t used = found == taken.end() ? 0 : found->second;
    const std::uint64_t left = device.free_bytes > used ? device.free_bytes - used : 0;
    room.push_back(device.total_bytes > 0 ? left : std::numeric_limits<std::uint64_t>::max());
  }
  return room;
}

std::vector<float> shares_of(const std::vector<std::uint64_t>& room, std::vector<float> split) {
  split.resize(room.size());
  const bool is_given = std::any_of(split.begin(), split.end(), [](float share) { return share > 0.0f; });
  if (is_given) return split;
  std::vector<float> shares;
  for (const std::uint64_t bytes : room) shares.push_back(static_cast<float>(std::max<std::uint64_t>(bytes, 1)));
  return shares;
}

}  // namespace

std::uint64_t LayerNeed::of(int first, int end) const {
  if (first >= end) return 0;
  std::uint64_t bytes = scratch;
  for (int layer = first; layer < end; ++layer) bytes += layer < num_layers() ? weights[idx(layer)] + cache : output;
  return bytes;
}

Division divide(const LayerNeed& need, int count, const std::vector<float>& shares) {
  std::vector<float> ends;  // of the devices' parts, as shares of all layers
  float sum = 0.0f;
  for (const float share : shares) ends.push_back(sum += share);
  for (float& end : ends) end /= sum;
  Division division{std::vector<int>(shares.size()), {}};
  for (int i = 0; i < count; ++i) {
    const float begin = static_cast<float>(i) / static_cast<float>(count);
    const auto device = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    ++division.layers[idx(device)];
  }
  int first = need.num_layers() + 1 - count;
  for (const int layers : division.layers) {
    division.bytes.push_back(need.of(first, first + layers));
    first += layers;
  }
  return division;
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

int layers_in(const LayerNeed& need, const std::vector<float>& shares, const std::vector<std::uint64_t>& bytes) {
  const auto fits = [&](int count) {
    const Division division = divide(need, count, shares);
    return std::equal(bytes.begin(), bytes.end(), division.bytes.begin(), std::greater_equal<>());
  };
  int count = need.num_layers() + 1;
  while (count > 0 && !fits(count)) --count;
  return count;
}

DefaultPlace default_place(const std::string& device, double device_seconds, double cpu_seconds) {
  constexpr double least_device_gain = 1.25;  // less is noise, or a draft on the CPU makes up for it
  const double gain = cpu_seconds / device_seconds;
  DefaultPlace place;
  place.is_device = gain >= least_device_gain;
  place.why = device + " multiplies " + format("%.2g", gain) + " times as fast as the CPU" +
              (place.is_device ? "" : ", which therefore runs all layers");
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
  const std::string name = text_of(found.front());
  const double small_products = 4;  // times as slow as large ones, at most, since a device needs time to start
  try {
    const double on_cpu = seconds_of_product(nullptr, 1, num_threads);
    const int columns = exact && !has_invariant_kernels(found.front().handle) ? exact_width : 1;
    const double on_device = seconds_of_product(found.front().handle, columns, num_threads, small_products * on_cpu);
    at->second = default_place(name, on_device, on_cpu);
  } catch (const std::runtime_error& failure) {
    at->second.why =
        name + " cannot be compared with the CPU (" + printable(failure.what()) + "), which therefore runs all layers";
  }
  return at->second;
}

std::vector<Offload::Override> overrides_of(const WantedPlace& wanted) {
  std::vector<Offload::Override> overrides;
  for (const std::string& text : wanted.override_tensor) {
    const auto [pattern, place] = parse_override(text);
    overrides.push_back({pattern, is_cpu(place) ? nullptr : choose_devices({place}).front().handle});
  }
  for (const Offload::Override& experts : experts_on_the_cpu(wanted.n_cpu_moe)) overrides.push_back(experts);
  return overrides;
}

std::string overrides_key(const WantedPlace& wanted, int num_layers) {
  std::string key;
  if (wanted.n_cpu_moe > 0)
    key += ", experts of " + std::to_string(std::min(wanted.n_cpu_moe, num_layers)) + " layers on the CPU";
  for (const std::string& text : wanted.override_tensor) {
    const auto [pattern, place] = parse_override(text);
    key += ", " + pattern + " on " + (is_cpu(place) ? "the CPU" : text_of(choose_devices({place}).front()));
  }
  return key;
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
                const std::vector<std::string>& device_names, const std::vector<float>& split,
                const BytesOnDevices& taken) {
  Placement placement;
  if (wanted == 0) return placement;
  std::vector<Device> found = choose_devices(device_names);
  const int all = need.num_layers() + 1;
  const std::string file = file_name(parts);
  if (found.empty()) {
    if (device_names.empty()) placement.note = "n_gpu_layers (-ngl) has no effect: no device: " + device_problems();
    return placement;
  }
  const std::vector<std::uint64_t> room = room_on(found, taken);
  std::vector<std::uint64_t> usable = room;
  for (std::uint64_t& bytes : usable) bytes -= bytes / 20;
  const std::vector<float> shares = shares_of(room, split);
  // A layer's cache is two tensors, which some drivers limit in size; the output, the last layer, has none.
  const bool hold_caches =
      std::all_of(found.begin(), found.end(), [&](const Device& device) { return can_hold(device, need.cache / 2); });
  const int most = std::min(layers_in(need, shares, usable), hold_caches ? all : 1);
  const int asked = wanted < 0 ? all : std::min(wanted, all);
  placement.num_layers = wanted == layers_that_fit ? most : asked;
  placement.division = divide(need, placement.num_layers, shares);
  const auto& [layers_on, bytes_on] = placement.division;
  std::string each;
  std::uint64_t bytes = 0, free = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int layers = layers_on[i];
    if (layers == 0) continue;
    if (bytes_on[i] > usable[i] || (!hold_caches && placement.num_layers > 1)) {
      throw ModelError(
          parts.front().path + ": not enough memory on " + text_of(found[i]) + " for " + std::to_string(layers) +
          " layers: " + mebibytes(bytes_on[i]) + " needed (weights, caches, scratch), " + mebibytes(room[i]) + " free" +
          (bytes_on[i] > usable[i] ? "" : ", but not in one piece for a layer's cache") + ". Ask for at most " +
          std::to_string(most) + " layers (n_gpu_layers, -ngl), \"auto\" for as many as fit, " +
          (found.size() > 1 ? "another division (tensor_split, -ts), " : "") + "or a shorter context (n_ctx, -c)");
    }
    each += each.empty() ? std::to_string(layers) + " of " + std::to_string(all) + " layers of " + file + " run on "
                         : ", " + std::to_string(layers) + " on ";
    each += text_of(found[i]);
    bytes += bytes_on[i] - need.scratch;
    free += found[i].total_bytes > 0 ? room[i] : 0;
  }
  if (placement.num_layers == 0) {
    placement.note = file + " runs on the CPU: no layer of it fits into the memory of " + names(found) + ", of which " +
                     mebibytes(std::accumulate(room.begin(), room.end(), std::uint64_t{0})) + " are free";
    return placement;
  }
  const std::uint64_t caches = need.cache * static_cast<std::uint64_t>(placement.num_layers - 1);
  placement.text = each + ": " + mebibytes(bytes - caches) + " of weights, " + mebibytes(caches) + " of caches, " +
                   mebibytes(free) + " were free";
  placement.devices = std::move(found);
  placement.shares = shares;
  return placement;
}

}  // namespace specdec
