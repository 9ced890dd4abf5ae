#include "graph/kernels.h"

#include "attention/kernels.h"
#include "base/isa.h"
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

}  // namespace specdec
