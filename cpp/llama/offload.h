// Which parts of a model run on which devices.
#pragma once

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"

struct ggml_backend_device;

namespace specdec {

struct Offload {
  struct Override {
    std::string pattern;          // a regular expression that matches a part of a tensor's name
    ggml_backend_device* device;  // null: the CPU
  };

  // The last num_layers layers (the output counts as one; -1: all) run on the devices, divided in proportion to
  // `split`, by default to the devices' free memory.
  int num_layers = 0;
  std::vector<ggml_backend_device*> devices;
  std::vector<float> split;
  std::vector<Override> overrides;  // places of tensors regardless of their layer; the first match counts

  bool is_used() const { return num_layers != 0 && !devices.empty(); }
};

// Experts of the first num_layers layers stay on the CPU.
std::vector<Offload::Override> experts_on_the_cpu(int num_layers);

// Parses "blk.1.ffn_.*=CPU" into the pattern and the name of the place. Throws std::invalid_argument.
std::pair<std::string, std::string> parse_override(const std::string& text);

// Tells whether a tensor is on a device. llama.cpp leaves the embedding on the CPU; if it is also the output matrix, it
// is copied.
class OffloadedTensors {
 public:
  OffloadedTensors(const std::vector<GgufFile>& parts, const Offload& offload);
  bool contain(const std::string& name) const;

 private:
  struct Override {
    std::regex pattern;
    bool is_on_device;
  };
  bool is_used_;
  std::vector<Override> overrides_;
  bool has_output_;
  int first_;  // layer
};

// The layer number in names such as "blk.12.attn_q.weight"; -1 for other tensors.
int layer_of(const std::string& name);

}  // namespace specdec
