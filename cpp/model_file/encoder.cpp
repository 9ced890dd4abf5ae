#include "model_file/encoder.h"

#include <algorithm>
#include <iterator>

namespace specdec {
namespace {

// Architectures without a cache in llama.cpp, whose graphs end with rows.
constexpr const char* encoders[] = {"bert",        "eurobert", "gemma-embedding", "jina-bert-v2",  "jina-bert-v3",
                                    "modern-bert", "neo-bert", "nomic-bert",      "nomic-bert-moe"};

}  // namespace

bool is_encoder(const std::string& architecture) {
  return std::any_of(std::begin(encoders), std::end(encoders), [&](const char* one) { return architecture == one; });
}

}  // namespace specdec
