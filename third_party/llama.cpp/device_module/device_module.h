// What a device module exports: the function SPECDEC_MODULE_ENTRY, which returns this table. C only: the module may
// have another C++ runtime than the program.
#pragma once

#include "ggml-backend.h"

#define SPECDEC_MODULE_ENTRY "specdec_device_module_table"

extern "C" {

struct specdec_device_module {
  const char* sources;  // llama.cpp's, by content: the program must be made of the same, since they share structures
  ggml_backend_reg_t (*open)(void);  // null: the backend cannot run here
  // Of the module's own copies of ggml's global state.
  void (*set_log)(ggml_log_callback callback, void* user_data);
  ggml_abort_callback_t (*set_abort)(ggml_abort_callback_t callback);
};

typedef const struct specdec_device_module* (*specdec_device_module_entry)(void);
}
