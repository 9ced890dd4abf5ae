// llama.cpp's own quantizer, for comparisons: every matrix to one type, also from a quantized file. Usage:
// bench_llama_quantize IN OUT TYPE
#include <cstdio>
#include <cstring>

#include "llama.h"

namespace {

struct Target {
  const char* name;
  llama_ftype type;
};
constexpr Target targets[] = {
    {"f16", LLAMA_FTYPE_MOSTLY_F16},       {"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},     {"q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},
    {"q4_1", LLAMA_FTYPE_MOSTLY_Q4_1},     {"q5_0", LLAMA_FTYPE_MOSTLY_Q5_0},     {"q5_1", LLAMA_FTYPE_MOSTLY_Q5_1},
    {"iq4_nl", LLAMA_FTYPE_MOSTLY_IQ4_NL}, {"iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS}, {"q2_k", LLAMA_FTYPE_MOSTLY_Q2_K},
    {"q3_k", LLAMA_FTYPE_MOSTLY_Q3_K_M},   {"q4_k", LLAMA_FTYPE_MOSTLY_Q4_K_M},   {"q5_k", LLAMA_FTYPE_MOSTLY_Q5_K_M},
    {"q6_k", LLAMA_FTYPE_MOSTLY_Q6_K},     {"iq3_s", LLAMA_FTYPE_MOSTLY_IQ3_S},
};

const Target* find(const char* name) {
  for (const Target& target : targets) {
    if (std::strcmp(target.name, name) == 0) return &target;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const Target* target = argc == 4 ? find(argv[3]) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr, "usage: bench_llama_quantize IN OUT TYPE; TYPE is one of");
    for (const Target& known : targets) std::fprintf(stderr, " %s", known.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = target->type;
  params.pure = true;
  params.allow_requantize = true;
  return llama_model_quantize(argv[1], argv[2], &params) == 0 ? 0 : 1;
}
