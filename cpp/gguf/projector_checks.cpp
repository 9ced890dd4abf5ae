#include "gguf/projector_checks.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/problem.h"

namespace specdec {
namespace {

using std::to_string;

struct Size {
  const char* name;
  std::uint64_t low, high;
};
constexpr Size sizes[] = {
    {"image_size", 1, 1 << 14},           {"patch_size", 1, 1 << 10},
    {"embedding_length", 1, 1 << 16},     {"block_count", 0, 512},
    {"attention.head_count", 1, 1 << 12}, {"projector.scale_factor", 1, 64},
    {"spatial_merge_size", 1, 64},        {"n_wa_pattern", 0, 512},
    {"window_size", 0, 1 << 14},          {"preproc_image_size", 0, 1 << 15},
    {"preproc_min_tiles", 0, 1 << 10},    {"preproc_max_tiles", 0, 1 << 10},
};

// What the graph of a family (llama.cpp's tools/mtmd/models) reads without asking.
struct Family {
  const char* type;
  std::vector<const char*> needs;
  bool has_whole_rows = false;  // a square picture's side is a multiple of the patches that become one row
};
const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"mlp", {"v.position_embd.weight", "mm.0.weight", "mm.0.bias"}},
      {"idefics3", {}, true},
      {"gemma3", {}, true},
      {"gemma4v", {"v.position_embd.weight"}},
      {"qwen2vl_merger", {"v.patch_embd.weight.1"}},
      {"qwen2.5vl_merger", {"v.patch_embd.weight.1"}},
      {"qwen3vl_merger", {"v.patch_embd.weight.1", "v.patch_embd.bias", "v.position_embd.weight"}},
      {"pixtral", {}},
      {"internvl", {"v.class_embd", "v.position_embd.weight"}, true},
      {"lfm2", {"v.position_embd.weight"}},
  };
  return all;
}

class Checks {
 public:
  explicit Checks(const GgufFile& file) : file_(file) {}

  void run() const {
    for (const Size& size : sizes) check_size(size);
    const std::string type = file_.string("clip.projector_type").value_or("");
    for (const Family& family : families()) {
      if (family.type == type) check_family(family);
    }
  }

 private:
  [[noreturn]] void reject(const std::string& problem) const { fail_file(file_.path, problem, get_again); }

  std::uint64_t key(const std::string& name, std::uint64_t otherwise) const {
    return file_.integer("clip.vision." + name).value_or(otherwise);
  }
  void check_size(const Size& size) const {
    const std::uint64_t value = key(size.name, size.low);
    if (value >= size.low && value <= size.high) return;
    reject("clip.vision." + std::string(size.name) + " is " + to_string(value) + ", and must be from " +
           to_string(size.low) + " to " + to_string(size.high));
  }
  const GgufTensor* find(std::string_view name) const {
    for (const GgufTensor& tensor : file_.tensors) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  const GgufTensor& need(const std::string& name) const {
    const GgufTensor* const tensor = find(name);
    if (tensor == nullptr) reject("has no tensor " + name);
    return *tensor;
  }

  void check_family(const Family& family) const {
    const bool is_llava = std::string_view(family.type) == "mlp";
    for (const char* name : family.needs) need(name);
    if (is_llava) {  // with norms, as in Yi-VL, or without
      const bool has_norms = find("mm.3.weight") != nullptr;
      for (const char* name : {"mm.1.weight", "mm.1.bias", "mm.3.bias", "mm.4.weight", "mm.4.bias"})
        if (has_norms) need(name);
      for (const char* name : {"mm.2.weight", "mm.2.bias"})
        if (!has_norms) need(name);
    }
    if (key("embedding_length", 0) % key("attention.head_count", 1) != 0)
      reject("clip.vision.embedding_length is no multiple of clip.vision.attention.head_count");
    if (family.has_whole_rows && key("image_size", 1) / key("patch_size", 1) % key("projector.scale_factor", 1) != 0)
      reject("clip.vision.projector.scale_factor does not divide the patches of a side");
    for (const GgufTensor& tensor : file_.tensors) {
      if (tensor.name.rfind("v.patch_embd.weight", 0) == 0) check_patch(tensor);
      check_bias(tensor);
      check_stacked_rows(tensor);
    }
    check_patch(need("v.patch_embd.weight"));
    for (std::uint64_t i = 0; i < key("block_count", 0); ++i) check_layer("v.blk." + to_string(i) + ".attn_");
    if (is_llava) check_positions(patches() + (find("v.class_embd") ? 1 : 0), 1);
    // A picture has at most 1120 rows, in a line perhaps.
    if (std::string_view(family.type) == "gemma4v") check_positions(1120 * key("projector.scale_factor", 3), 2);
  }
  std::uint64_t patches() const {
    const std::uint64_t side = key("image_size", 1) / key("patch_size", 1);
    return side * side;
  }
  // [width of the encoder][3][patch][patch]
  void check_patch(const GgufTensor& patch) const {
    const std::uint64_t side = key("patch_size", 1);
    if (patch.shape != std::vector<std::uint64_t>{side, side, 3, key("embedding_length", 1)})
      reject(patch.name + " has not the shape that clip.vision.patch_size and clip.vision.embedding_length give");
  }
  void check_layer(const std::string& prefix) const {
    if (find(prefix + "qkv.weight") != nullptr) return;
    for (const char* part : {"q.weight", "k.weight", "v.weight"}) need(prefix + part);
  }
  // A bias that is shorter than its matrix's rows would be repeated, which makes rows of another width.
  void check_bias(const GgufTensor& weight) const {
    const std::string end = ".weight";
    const std::size_t at = weight.name.size() - std::min(weight.name.size(), end.size());
    if (weight.shape.size() < 2 || weight.name.compare(at, end.size(), end) != 0) return;
    const GgufTensor* const bias = find(weight.name.substr(0, at) + ".bias");
    if (bias != nullptr && bias->elements() != weight.shape.back())
      reject(bias->name + " has not as many numbers as " + weight.name + " has rows");
  }
  // A row of qwen3vl_merger is its own part and those of v.deepstack.N, of the same width.
  void check_stacked_rows(const GgufTensor& tensor) const {
    const std::string begin = "v.deepstack.", end = ".fc2.weight";
    if (tensor.name.size() < end.size() || tensor.name.rfind(begin, 0) != 0) return;
    if (tensor.name.compare(tensor.name.size() - end.size(), end.size(), end) != 0) return;
    if (tensor.shape.back() != need("mm.2.weight").shape.back())
      reject(tensor.name + " and mm.2.weight differ in rows");
  }
  void check_positions(std::uint64_t count, std::uint64_t axes) const {
    const std::vector<std::uint64_t>& shape = need("v.position_embd.weight").shape;
    if (shape.size() < 2 || shape[1] < count || (axes > 1 && (shape.size() != 3 || shape[2] != axes)))
      reject("v.position_embd.weight has not the " + to_string(count) + " positions that pictures need");
  }

  const GgufFile& file_;
};

}  // namespace

void check_projector(const GgufFile& file) { Checks(file).run(); }

}  // namespace specdec
