// Grammars, JSON schemas and regular expressions of strangers: rejected as invalid arguments, or constraints whose
// masks are what they then accept.
//
// The input: u8 which of the three; u8, from which the tokens follow that are chosen; and the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

#include "constraints/sound_inputs.h"

namespace {

using namespace specdec::constraints;

constexpr std::size_t head = 2;

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// Begins with sound texts, and again now and then.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* input, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed + 1);
  if (size > head && random() % 64 != 0) return LLVMFuzzerMutate(input, size, max_size);
  const auto kind = static_cast<std::uint8_t>(random() % num_kinds);
  const auto& texts = sound_inputs(static_cast<Kind>(kind));
  const std::string& text = texts[random() % texts.size()];
  if (max_size < head + text.size()) return size;
  input[0] = kind;
  input[1] = static_cast<std::uint8_t>(random());
  std::copy(text.begin(), text.end(), input + head);
  return head + text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size < head) return 0;
  std::minstd_rand random(input[1] + 1u);
  try {
    const auto constraint = compiled(static_cast<Kind>(input[0] % num_kinds),
                                     std::string(reinterpret_cast<const char*>(input) + head, size - head));
    walk(*constraint, [&](std::size_t n) { return random() % n; });
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
