#include "mxfp6/dispatch.h"

#include <cstdlib>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace specdec::mxfp6 {
namespace {

constexpr const char* known_names[] = {"scalar", "avx2", "avx_vnni", "avx512vl_vnni", "avx512_vnni_vbmi", "neon_dotprod"};

#if defined(__x86_64__)

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool has(unsigned word, std::initializer_list<int> bits) {
  for (const int bit : bits) {
    if ((word >> bit & 1) == 0) return false;
  }
  return true;
}

// Register state the operating system saves: XCR0, or nothing where XGETBV is not enabled.
unsigned saved_state() {
  constexpr int osxsave = 27;
  if (!has(cpuid(1, 0).ecx, {osxsave})) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

void add_supported(std::vector<const Kernels*>& list) {
  const Cpuid basic = cpuid(1, 0), extended = cpuid(7, 0);
  const unsigned saved = saved_state();
  const bool saves_ymm = has(saved, {1, 2});
  const bool saves_zmm = saves_ymm && has(saved, {5, 6, 7});
  const bool avx2 = saves_ymm && has(basic.ecx, {12 /* FMA */, 28 /* AVX */}) && has(extended.ebx, {5 /* AVX2 */});
  const bool avx512 = avx2 && saves_zmm && has(extended.ebx, {16 /* F */, 17 /* DQ */, 30 /* BW */, 31 /* VL */});
  const bool avx512_vnni = avx512 && has(extended.ecx, {11 /* VNNI */});
  if (avx512_vnni && has(extended.ecx, {1 /* VBMI */})) list.push_back(&avx512_vnni_vbmi_kernels);
#if defined(SPECDEC_HAS_AVX_VNNI)
  if (avx2 && has(cpuid(7, 1).eax, {4 /* AVX-VNNI */})) list.push_back(&avx_vnni_kernels);
#endif
  if (avx512_vnni) list.push_back(&avx512vl_vnni_kernels);
  if (avx2) list.push_back(&avx2_kernels);
}

#elif defined(__aarch64__)

bool has_dotprod() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &value, &size, nullptr, 0) == 0 && value != 0;
#else
  return false;
#endif
}

void add_supported(std::vector<const Kernels*>& list) {
  if (has_dotprod()) list.push_back(&neon_dotprod_kernels);
}

#else

void add_supported(std::vector<const Kernels*>&) {}

#endif

}  // namespace

const std::vector<const Kernels*>& supported_kernels() {
  static const std::vector<const Kernels*> list = [] {
    std::vector<const Kernels*> found;
    add_supported(found);
    found.push_back(&scalar_kernels);
    return found;
  }();
  return list;
}

Selection select_kernels(std::string_view name) {
  if (name.empty()) return {supported_kernels().front(), {}};
  std::string available;
  for (const Kernels* kernels : supported_kernels()) {
    if (name == kernels->name) return {kernels, {}};
    available += available.empty() ? "" : ", ";
    available += kernels->name;
  }
  bool known = false;
  for (const char* other : known_names) known = known || name == other;
  const std::string problem = known ? "this CPU or build does not support the instruction set \"" : "unknown instruction set \"";
  return {nullptr, problem + std::string(name) + "\"; supported here: " + available};
}

const Selection& default_kernels() {
  static const Selection selection = [] {
    const char* forced = std::getenv("SPECDEC_ISA");
    Selection chosen = select_kernels(forced == nullptr ? "" : forced);
    if (chosen.kernels == nullptr) chosen.error = "SPECDEC_ISA: " + chosen.error;
    return chosen;
  }();
  return selection;
}

}  // namespace specdec::mxfp6
