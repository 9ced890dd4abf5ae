// llama.cpp's own quantizer, for comparisons: every weight to one type. Usage: bench_llama_quantize IN OUT q8_0|q6_k
#include <cstdio>
#include <cstring>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 4 || (std::strcmp(argv[3], "q8_0") != 0 && std::strcmp(argv[3], "q6_k") != 0)) {
    std::fprintf(stderr, "usage: bench_llama_quantize IN OUT q8_0|q6_k\n");
    return 2;
  }
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = std::strcmp(argv[3], "q8_0") == 0 ? LLAMA_FTYPE_MOSTLY_Q8_0 : LLAMA_FTYPE_MOSTLY_Q6_K;
  params.nthread = 1;
  return llama_model_quantize(argv[1], argv[2], &params) == 0 ? 0 : 1;
}
