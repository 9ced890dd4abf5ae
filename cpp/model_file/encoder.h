// Models that read a whole text at once and compute embeddings, but generate no text.
#pragma once

#include <string>

namespace specdec {

bool is_encoder(const std::string& architecture);

}  // namespace specdec
