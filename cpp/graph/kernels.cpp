#include "graph/kernels.h"

#include "attention/kernels.h"
#include "base/isa.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "graph/blocks.h"
#include "weights/blocks/kernels.h"
#include "weights/floats/kernels.h"
#include "weights/mxfp6/kernels.h"

namespace specdec {

std::vector<KernelChoice> chosen_kernels() {
  return {{"MXFP6", pick(mxfp6::all_kernels()).name},
          {"floats", pick(floats::all_kernels()).name},
          {"blocks", pick(blocks::all_kernels()).name},
          {"attention", pick(attention::all_kernels()).name}};
}

const char* kernel_of_type(int type) {
  if (type == GGML_TYPE_MXFP6_E2M3) return pick(mxfp6::all_kernels()).name;
  if (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_F32) return pick(floats::all_kernels()).name;
  if (is_block_type(type)) return pick(blocks::all_kernels()).name;
  return ggml_get_type_traits_cpu(static_cast<ggml_type>(type))->vec_dot != nullptr ? "llama.cpp" : "none";
}

}  // namespace specdec
