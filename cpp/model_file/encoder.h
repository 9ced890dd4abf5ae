// Models that read a text at once and make embeddings of it, but no text.
#pragma once

#include <string>

namespace specdec {

bool is_encoder(const std::string& architecture);

}  // namespace specdec
