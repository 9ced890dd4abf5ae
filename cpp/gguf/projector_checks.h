// Checks of projector files for what llama.cpp would end the process at.
#pragma once

#include "gguf/gguf_file.h"

namespace specdec {

// Throws ModelError. Of families that it does not know, only the sizes of the encoder are checked.
void check_projector(const GgufFile& file);

}  // namespace specdec
