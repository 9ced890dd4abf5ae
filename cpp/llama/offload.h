// What of a model runs on which devices.
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
    std::string pattern;          // a regular expression that a tensor's name contains
    ggml_backend_device* device;  // null: the CPU
  };

  // The last num_layers layers (the output counts as one; -1: all) run on the devices, in proportion to `split`, by
  // default to their free memory.
  int num_layers = 0;
  std::vector<ggml_backend_device*> devices;
  std::vector<float> split;
  std::vector<Override> overrides;  // where a tensor is whatever its layer; the first that matches

  bool is_used() const { return num_layers != 0 && !devices.empty(); }
};

// Experts of the first num_layers layers stay on the CPU.
std::vector<Offload::Override> experts_on_the_cpu(int num_layers);

// "blk.1.ffn_.*=CPU": the pattern, and the name of its place. Throws std::invalid_argument.
std::pair<std::string, std::string> parse_override(const std::string& text);

// Whether a tensor is on a device. llama.cpp leaves the embedding on the CPU, and copies it where it is the output,
// too.
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

// The layer of "blk.12.attn_q.weight"; -1: another tensor.
int layer_of(const std::string& name);

}  // namespace specdec
