// A CPU with everything that emulated_vnni.h stands in for.
#include "base/cpu_features.h"

namespace specdec {

CpuFeatures cpu_features() noexcept {
  return cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx_vnni | cpu::avx512f | cpu::avx512dq | cpu::avx512bw |
         cpu::avx512vl | cpu::avx512_vnni | cpu::avx512_vbmi;
}

}  // namespace specdec
