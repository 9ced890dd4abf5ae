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

// llama.cpp's own programs call it in the file that GGML_BACKEND_PATH names; bench/device compares with them.
#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
ggml_backend_reg_t ggml_backend_init(void);
}

const specdec_device_module* specdec_device_module_table(void) {
  static const specdec_device_module module = {SPECDEC_MODULE_SOURCES, SPECDEC_MODULE_REGISTER, ggml_log_set,
                                               ggml_set_abort_callback};
  return &module;
}

ggml_backend_reg_t ggml_backend_init(void) { return SPECDEC_MODULE_REGISTER(); }
