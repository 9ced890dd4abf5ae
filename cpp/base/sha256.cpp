#include "base/sha256.h"

extern "C" {
#include <sha256/sha256.h>
}

namespace specdec {

struct Sha256::State : sha256_t {};

Sha256::Sha256() : state_(std::make_unique<State>()) { sha256_init(state_.get()); }
Sha256::~Sha256() = default;

void Sha256::add(const void* data, std::size_t bytes) {
  sha256_update(state_.get(), static_cast<const unsigned char*>(data), bytes);
}

std::string Sha256::finish() {
  unsigned char digest[SHA256_DIGEST_SIZE];
  sha256_final(state_.get(), digest);
  sha256_init(state_.get());
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

}  // namespace specdec
