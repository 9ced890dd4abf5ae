#include "base/cpu_features.h"

#include <cstddef>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace specdec {
namespace {

#if defined(__x86_64__)

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool has(unsigned word, int bit) { return (word >> bit & 1) != 0; }

// The register state that the operating system saves: XCR0, or 0 if XGETBV is not enabled.
unsigned saved_state(unsigned leaf_1_ecx) {
  constexpr int osxsave = 27;
  if (!has(leaf_1_ecx, osxsave)) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

CpuFeatures detect() {
  const Cpuid basic = cpuid(1, 0), extended = cpuid(7, 0), more = cpuid(7, 1);
  const unsigned saved = saved_state(basic.ecx);
  const bool saves_ymm = has(saved, 1) && has(saved, 2);
  const bool saves_zmm = saves_ymm && has(saved, 5) && has(saved, 6) && has(saved, 7);
  CpuFeatures found = 0;
  const auto add = [&found](CpuFeatures feature, bool present) { found |= present ? feature : 0; };
  add(cpu::bmi2, has(extended.ebx, 8));
  if (!saves_ymm || !has(basic.ecx, 28)) return found;  // AVX
  add(cpu::avx2, has(extended.ebx, 5));
  add(cpu::fma, has(basic.ecx, 12));
  add(cpu::f16c, has(basic.ecx, 29));
  add(cpu::avx_vnni, has(more.eax, 4));
  if (!saves_zmm) return found;
  add(cpu::avx512f, has(extended.ebx, 16));
  add(cpu::avx512dq, has(extended.ebx, 17));
  add(cpu::avx512bw, has(extended.ebx, 30));
  add(cpu::avx512vl, has(extended.ebx, 31));
  add(cpu::avx512_vnni, has(extended.ecx, 11));
  add(cpu::avx512_vbmi, has(extended.ecx, 1));
  return found;
}

#elif defined(__aarch64__) && defined(__linux__)

CpuFeatures detect() {
  constexpr unsigned long hwcap2_i8mm = 1ul << 13;  // HWCAP2_I8MM, which older headers lack
  CpuFeatures found = cpu::neon;
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) found |= cpu::dotprod;
  if ((getauxval(AT_HWCAP2) & hwcap2_i8mm) != 0) found |= cpu::i8mm;
  return found;
}

#elif defined(__aarch64__) && defined(__APPLE__)

bool has(const char* name) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}

CpuFeatures detect() {
  CpuFeatures found = cpu::neon;
  if (has("hw.optional.arm.FEAT_DotProd")) found |= cpu::dotprod;
  if (has("hw.optional.arm.FEAT_I8MM")) found |= cpu::i8mm;
  return found;
}

#else

CpuFeatures detect() { return 0; }

#endif

}  // namespace

CpuFeatures cpu_features() noexcept {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace specdec
