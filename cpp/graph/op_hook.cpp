#include "graph/op_hook.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "graph/attention.h"
#include "graph/batch_invariance.h"
#include "graph/blocks.h"
#include "graph/floats.h"
#include "graph/mxfp6.h"
#include "graph/scaled_rows.h"
#include "traits.h"

namespace specdec {
namespace {

// Chooses the algorithm of llama.cpp's own kernel, which runs afterwards.
class ReferenceChoice final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int, const ggml_tensor*, size_t&) override { return false; }  // uses llama.cpp's size
  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    params->use_ref = wants_reference(op);
    return false;  // continue with the stock kernel
  }
};

class OpHook final : public ggml::cpu::extra_buffer_type {
 public:
  explicit OpHook(void (*before_operation)()) : before_operation_(before_operation) {}
  // No weights are stored in this buffer type.
  bool supports_op(ggml_backend_dev_t, const ggml_tensor*) override { return false; }
  ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
    before_operation_();
    if (ggml::cpu::tensor_traits* traits = attention_traits(op)) return traits;
    if (is_hadamard(op)) return &reference_choice_;
    if (ggml::cpu::tensor_traits* traits = block_traits(op))
      return traits;  // checked first, because weights of the other types may have a rounded copy
    if (ggml::cpu::tensor_traits* traits = mxfp6_traits(op)) return traits;
    if (ggml::cpu::tensor_traits* traits = float_traits(op)) return traits;
    if (ggml::cpu::tensor_traits* traits = scaled_rows_traits(op)) return traits;
    return depends_on_batch(op) ? &reference_choice_ : nullptr;
  }

 private:
  void (*before_operation_)();
  ReferenceChoice reference_choice_;
};

}  // namespace

void install_op_hook(void (*before_operation)()) {
  static OpHook hook(before_operation);
  static ggml_backend_buffer_type buffer_type{};
  buffer_type.iface.get_name = [](ggml_backend_buffer_type_t) { return "specdec"; };
  buffer_type.context = static_cast<ggml::cpu::extra_buffer_type*>(&hook);

  // The first call freezes the list from which llama.cpp picks weight buffers; types added later only get operations.
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  buffer_type.device = cpu;
  const auto get_extra_bufts = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
  get_extra_bufts(cpu);
  ggml_backend_cpu_get_extra_buffer_types().push_back(&buffer_type);
}

}  // namespace specdec
