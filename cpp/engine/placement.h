// Which layers of a model run on which devices, decided before anything is allocated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "gguf/gguf_file.h"
#include "llama/devices.h"
#include "llama/offload.h"
#include "model_file/kv_cache.h"

namespace specdec {

constexpr int exact_width = 8;  // of passes on devices: kernels for few columns have up to 8

// Bytes of a model by layer, from its header. An upper bound: layers without attention are counted as if they had it.
struct LayerNeed {
  std::vector<std::uint64_t> weights;  // [layers]
  std::uint64_t output = 0;            // counts as a layer and is placed first
  std::uint64_t cache = 0;             // of each layer
  std::uint64_t scratch = 0;           // of passes

  int num_layers() const { return static_cast<int>(weights.size()); }
  std::uint64_t of(int first, int end) const;  // the layers from first to end - 1, with scratch; 0 for none
};

// cells: the sum over all caches. most_rows: rows of logits in a pass of pass_tokens tokens. Tensors that `offload`
// leaves on the CPU are not counted.
LayerNeed layer_need(const std::vector<GgufFile>& parts, const Offload& offload, std::uint64_t cells, KvType type,
                     int pass_tokens, int most_rows);

// The last layers of a model, divided among devices in llama.cpp's way.
struct Division {
  std::vector<int> layers;           // [devices] consecutive ones; the output is the last
  std::vector<std::uint64_t> bytes;  // [devices]
};
// shares: [devices] in proportion to which `count` layers are divided; not all 0.
Division divide(const LayerNeed& need, int count, const std::vector<float>& shares);
// How many layers fit into this many bytes, [devices], of each.
int layers_in(const LayerNeed& need, const std::vector<float>& shares, const std::vector<std::uint64_t>& bytes);

// Whether the devices that are used by default multiply so much faster than the CPU that layers run there unless asked
// otherwise. Measured once per process; without a device nothing is.
struct DefaultPlace {
  bool is_device = false;
  std::string why;  // part of a sentence; empty: there is no device
};
DefaultPlace default_place(int num_threads, bool exact);
DefaultPlace default_place(const std::string& device, double device_seconds, double cpu_seconds);

// What was asked for, for the target or for a draft.
struct WantedPlace {
  int num_layers;  // or all_layers, or layers_that_fit
  const std::vector<std::string>& devices;
  int n_cpu_moe;
  const std::vector<std::string>& override_tensor;
};

// Throw std::invalid_argument.
std::vector<Offload::Override> overrides_of(const WantedPlace& wanted);
std::vector<float> split_of(const GeneratorOptions& options);
// A part of keys for what depends on the places of tensors.
std::string overrides_key(const WantedPlace& wanted, int num_layers);

struct Placement {
  std::vector<Device> devices;  // empty: the CPU has all layers
  int num_layers = 0;           // as llama.cpp counts them: the output is one
  std::vector<float> shares;    // [devices] see divide()
  Division division;            // among the devices
  std::string text;             // a sentence about what runs where; empty if nothing was asked for
  std::string note;             // why this differs from what was asked for

  std::vector<ggml_backend_device*> handles() const;
};

using BytesOnDevices = std::map<ggml_backend_device*, std::uint64_t>;

// wanted: a number of layers, all_layers or layers_that_fit. split: of the layers among the devices; if empty or all 0,
// by free memory. Throws std::invalid_argument for an unknown device, and ModelError if a number of layers or all of
// them do not fit. taken: bytes that are already planned.
Placement place(const std::vector<GgufFile>& parts, const LayerNeed& need, int wanted,
                const std::vector<std::string>& device_names, const std::vector<float>& split = {},
                const BytesOnDevices& taken = {});

}  // namespace specdec
