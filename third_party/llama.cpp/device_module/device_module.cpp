#include "device_module.h"

#include "ggml.h"

extern "C" {

ggml_backend_reg_t SPECDEC_MODULE_REGISTER(void);

#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
const specdec_device_module* specdec_device_module_table(void);
}

const specdec_device_module* specdec_device_module_table(void) {
  static const specdec_device_module module = {SPECDEC_MODULE_SOURCES, SPECDEC_MODULE_REGISTER, ggml_log_set,
                                               ggml_set_abort_callback};
  return &module;
}
