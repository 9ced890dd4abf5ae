#include "cli/commands/kernel_families.h"

#include "sampling/kernels.h"
#include "weights/mxfp6/kernels.h"

namespace specdec::cli {

std::vector<KernelChoice> kernel_families() {
  std::vector<KernelChoice> families = chosen_kernels();
  families.push_back({"sampling", sampling::row_loops().name});
  families.push_back({"calibration", mxfp6::calibration_loops().name});
  return families;
}

}  // namespace specdec::cli
