// llama.cpp's own quantizer, for comparisons: every matrix to one type, also from a quantized file. Usage:
// bench_llama_quantize IN OUT TYPE, a name of ggml's: q4_K, iq2_xxs, nvfp4, f16. Types that llama.cpp makes with an
// importance of columns only get equal ones. Rows of another length than the type's blocks get llama.cpp's substitute.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"
#include "llama.h"

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<ggml_type> find(const std::string& name) {
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const auto type = static_cast<ggml_type>(i);
    if (ggml_type_name(type) != nullptr && lower(ggml_type_name(type)) == lower(name)) return type;
  }
  return std::nullopt;
}

bool needs_importance(const std::string& type) {
  return type.rfind("iq1", 0) == 0 || type.rfind("iq2", 0) == 0 || type == "iq3_xxs";
}

// Names and importance of the file's matrices.
struct Importance {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;

  explicit Importance(const char* file) {
    ggml_context* tensors = nullptr;
    gguf_context* header = gguf_init_from_file(file, {true, &tensors});
    if (header == nullptr) return;
    for (ggml_tensor* t = ggml_get_first_tensor(tensors); t != nullptr; t = ggml_get_next_tensor(tensors, t)) {
      names.push_back(t->name);
      values.emplace_back(static_cast<std::size_t>(t->ne[0] * t->ne[2]), 1.0f);
    }
    ggml_free(tensors);
    gguf_free(header);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::optional<ggml_type> type = argc == 4 ? find(argv[3]) : std::nullopt;
  if (!type || (!ggml_is_quantized(*type) && *type != GGML_TYPE_F16))
    return std::fprintf(stderr, "usage: bench_llama_quantize IN OUT TYPE; a quantized type of ggml's, or f16\n"), 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  const llama_model_tensor_override all[] = {{".*", *type}, {nullptr, GGML_TYPE_COUNT}};
  params.ftype = *type == GGML_TYPE_F16 ? LLAMA_FTYPE_MOSTLY_F16 : LLAMA_FTYPE_MOSTLY_Q8_0;
  params.tt_overrides = all;
  params.pure = true;
  params.allow_requantize = true;
  std::vector<llama_model_imatrix_data> importance;
  if (needs_importance(lower(argv[3]))) {
    static const Importance equal(argv[1]);
    for (std::size_t i = 0; i < equal.names.size(); ++i)
      importance.push_back({equal.names[i].c_str(), equal.values[i].data(), equal.values[i].size()});
    importance.push_back({nullptr, nullptr, 0});
    params.imatrix = importance.data();
  }
  return llama_model_quantize(argv[1], argv[2], &params) == 0 ? 0 : 1;
}
