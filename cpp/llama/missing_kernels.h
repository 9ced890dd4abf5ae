// Weights that should be on a device, which has no kernel for them: llama.cpp silently leaves them in the CPU's memory.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "llama/offload.h"

struct llama_model;

namespace specdec {

// Describes those of a loaded model by type: "12 MiB in TQ2_0, 1 MiB in F32"; empty: there are none.
std::string weights_without_kernels(const llama_model* model, const std::vector<GgufFile>& parts,
                                    const Offload& offload);

}  // namespace specdec
