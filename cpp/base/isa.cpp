#include "base/isa.h"

#include <cstdlib>

namespace specdec {
namespace {

constexpr CpuFeatures avx2 = cpu::avx2 | cpu::fma;
constexpr CpuFeatures avx512 = avx2 | cpu::avx512f | cpu::avx512dq | cpu::avx512bw | cpu::avx512vl;

struct FeatureName {
  CpuFeatures feature;
  const char* name;
};
constexpr FeatureName feature_list[] = {
    {cpu::avx2, "avx2"},
    {cpu::fma, "fma"},
    {cpu::f16c, "f16c"},
    {cpu::bmi2, "bmi2"},
    {cpu::avx_vnni, "avx_vnni"},
    {cpu::avx512f, "avx512f"},
    {cpu::avx512dq, "avx512dq"},
    {cpu::avx512bw, "avx512bw"},
    {cpu::avx512vl, "avx512vl"},
    {cpu::avx512_vnni, "avx512_vnni"},
    {cpu::avx512_vbmi, "avx512_vbmi"},
    {cpu::neon, "neon"},
    {cpu::dotprod, "dotprod"},
    {cpu::i8mm, "i8mm"},
};

// Best first. Every build knows all names, so that errors distinguish unsupported names from misspelt ones.
constexpr Isa isas[] = {
    {"avx512_vnni_vbmi", avx512 | cpu::avx512_vnni | cpu::avx512_vbmi, cpu::f16c},
    {"avx_vnni", avx2 | cpu::avx_vnni, cpu::f16c},
    {"avx512vl_vnni", avx512 | cpu::avx512_vnni, cpu::f16c},
    {"avx2", avx2, cpu::f16c},
    {"neon_i8mm", cpu::neon | cpu::dotprod | cpu::i8mm, 0},
    {"neon_dotprod", cpu::neon | cpu::dotprod, 0},
    {"scalar", 0, 0},
};

}  // namespace

std::string feature_names(CpuFeatures features) {
  std::string text;
  for (const FeatureName& known : feature_list) {
    if ((features & known.feature) != 0) text += (text.empty() ? "" : ", ") + std::string(known.name);
  }
  return text;
}

const std::vector<const Isa*>& supported_isas() {
  static const std::vector<const Isa*> list = [] {
    std::vector<const Isa*> found;
    for (const Isa& isa : isas) {
      if ((isa.needs & ~cpu_features()) == 0) found.push_back(&isa);
    }
    return found;
  }();
  return list;
}

IsaSelection select_isa(std::string_view name) {
  if (name.empty()) return {supported_isas().front(), {}};
  std::string available;
  for (const Isa* isa : supported_isas()) {
    if (name == isa->name) return {isa, {}};
    available += (available.empty() ? "" : ", ") + std::string(isa->name);
  }
  std::string problem = "unknown instruction set \"" + std::string(name) + "\"";
  for (const Isa& isa : isas) {
    if (name == isa.name) {
      problem = "this CPU does not support the instruction set \"" + std::string(name) + "\" (it lacks " +
                feature_names(isa.needs & ~cpu_features()) + ")";
    }
  }
  return {nullptr, problem + "; supported here: " + available};
}

const IsaSelection& default_isa() {
  static const IsaSelection selection = [] {
    const char* forced = std::getenv("SPECDEC_ISA");
    IsaSelection chosen = select_isa(forced == nullptr ? "" : forced);
    if (chosen.isa == nullptr) chosen.error = "SPECDEC_ISA: " + chosen.error;
    return chosen;
  }();
  return selection;
}

}  // namespace specdec
