// evaluate(): the logits of a sequence of tokens, for tests and teaching.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "llama/context.h"
#include "llama/devices.h"
#include "llama/streamed_weights.h"

namespace py = pybind11;

namespace {

using specdec::Token;

void check_arguments(const std::vector<Token>& tokens, const std::vector<int>& pass_sizes, int n_threads) {
  if (tokens.empty()) throw std::invalid_argument("tokens is empty; give at least one");
  if (pass_sizes.empty() || *std::min_element(pass_sizes.begin(), pass_sizes.end()) < 1) {
    throw std::invalid_argument("pass_sizes must be a list of one or more numbers of at least 1");
  }
  if (n_threads < 1 || n_threads > 512)
    throw std::invalid_argument("n_threads is " + std::to_string(n_threads) + "; it must be between 1 and 512");
}

void check_tokens(const std::vector<Token>& tokens, int vocabulary_size) {
  for (const Token token : tokens) {
    if (token >= 0 && token < vocabulary_size) continue;
    throw std::invalid_argument("tokens contain " + std::to_string(token) + "; ids must be between 0 and " +
                                std::to_string(vocabulary_size - 1));
  }
}

// Writes [tokens, vocabulary_size] to `out`.
void read_in_passes(specdec::LanguageModel& model, const std::vector<Token>& tokens, const std::vector<int>& pass_sizes,
                    float* out) {
  const auto row = specdec::idx(model.vocabulary_size());
  const int length = static_cast<int>(tokens.size());
  std::size_t pass = 0;
  for (int at = 0; at < length; ++pass) {
    const int count = std::min(pass_sizes[pass % pass_sizes.size()], length - at);
    model.decode({{0, tokens.data() + at, count, count}});
    std::memcpy(out + specdec::idx(at) * row, model.logits(0), specdec::idx(count) * row * sizeof(float));
    at += count;
  }
}

py::array_t<float> evaluate(const std::string& path, const std::vector<Token>& tokens,
                            const std::vector<int>& pass_sizes, int n_threads, const std::string& kv_type, bool mmap,
                            const std::string& repack, std::uint64_t memory_to_leave,
                            const std::vector<std::string>& devices, int n_gpu_layers, int width, bool pads,
                            std::uint64_t memory, const std::string& tile_cache) {
  check_arguments(tokens, pass_sizes, n_threads);
  std::unique_ptr<specdec::Context> context;
  {
    WithoutGil without_gil;
    specdec::Model::Options model_options;
    model_options.use_mmap = mmap;
    if (!devices.empty()) {
      for (const specdec::Device& device : specdec::choose_devices(devices)) {
        model_options.offload.devices.push_back(device.handle);
      }
      model_options.offload.num_layers = n_gpu_layers;
    }
    model_options.streams = memory > 0;
    const auto model = std::make_shared<specdec::Model>(specdec::GgufFile::read_parts(path), model_options);
    if (memory > 0) {
      specdec::TileCache cache({tile_cache, std::uint64_t{1} << 40});
      const std::string problem =
          model->stream(cache, std::max(memory, model->least_streamed_memory(n_threads)), n_threads);
      if (!problem.empty()) throw specdec::ModelError(problem);
      if (!model->streamed_weights()->reads_from_disk()) throw specdec::ModelError(path + ": nothing is streamed");
    }
    if (!repack.empty()) {
      const std::string problem = model->repack(specdec::parse_tile_weights(repack), n_threads, memory_to_leave);
      if (!problem.empty()) throw specdec::ModelError(problem);
      if (!model->is_repacked())
        throw specdec::ModelError(path + ": the mapped file has no weights that can be repacked");
    }
    check_tokens(tokens, model->vocabulary().size());
    specdec::Context::Options options;
    options.kv_type = specdec::parse_kv_type(kv_type);
    options.context_length = static_cast<int>(tokens.size());
    options.batch_size = options.max_rows =
        std::min(options.context_length, *std::max_element(pass_sizes.begin(), pass_sizes.end()));
    options.width = width;
    if (!pads) options.batch_size = options.max_rows = std::max(options.batch_size, width);
    context = std::make_unique<specdec::Context>(model, std::make_shared<specdec::ThreadPool>(n_threads), options);
    if (!pads && !context->leave_out_padding()) {
      throw specdec::ModelError(path + ": the devices' kernels depend on the number of tokens of a pass");
    }
  }
  py::array_t<float> logits(
      {static_cast<py::ssize_t>(tokens.size()), static_cast<py::ssize_t>(context->vocabulary_size())});
  float* out = logits.mutable_data();
  WithoutGil without_gil;
  read_in_passes(*context, tokens, pass_sizes, out);
  context.reset();
  return logits;
}

constexpr const char* evaluate_doc =
    R"(Logits of a token sequence, float32 [len(tokens), vocabulary]: row i predicts the token after tokens[i]. For
tests and teaching.

path: a GGUF file, loaded for this call
pass_sizes: number of tokens in each pass, repeated until all tokens are read; the logits do not depend on it
n_threads: 1..512
kv_type: "f16" or "q8_0", the type of the KV cache
mmap: False reads the weights into memory instead of mapping the file
repack: "file" copies quantized weights (Q4_K, Q8_0, ...) into the order of the kernels, which changes no bit;
    "4-bit" also rounds those of more than 4.5 bits to Q4_0, "auto" not those of small models; ModelError if there
    are none, or if less than memory_to_leave bytes would be left
devices, n_gpu_layers: of this machine, for the last n_gpu_layers layers (-1: all)
width: of all passes (docs/devices.md); 0: they are as wide as pass_sizes says
pads: False uses batch-invariant kernels and passes of at most `width` tokens; ModelError if there are none for this
    model, or if len(tokens) is less than width * width / 2
memory: bytes for the weights' matrices, or as many as are needed at least; the rest is streamed (docs/memory.md),
    and ModelError if nothing is; 0: they are mapped
tile_cache: a folder for that, where tiles of the model are kept

ValueError: no tokens, an id outside the vocabulary, a pass of no tokens, an argument out of range.
ModelError: a file that cannot be used.)";

}  // namespace

void register_evaluate(py::module_& m) {
  m.def("evaluate", &evaluate, evaluate_doc, py::arg("path"), py::arg("tokens"), py::arg("pass_sizes"),
        py::arg("n_threads") = 1, py::arg("kv_type") = "f16", py::arg("mmap") = true, py::arg("repack") = "",
        py::arg("memory_to_leave") = 0, py::arg("devices") = std::vector<std::string>(), py::arg("n_gpu_layers") = -1,
        py::arg("width") = 0, py::arg("pads") = true, py::arg("memory") = 0, py::arg("tile_cache") = "");
}
