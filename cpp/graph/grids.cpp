#include "graph/grids.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "ggml.h"
#include "weights/blocks/grids.h"

namespace specdec {
namespace {

int stored_code(blocks::Type type, long code) {
  int stored = 0;
  while (blocks::code_of(type, stored) != code) ++stored;
  return stored;
}

// Reads entry by entry, each as the first entry of a block of zeros with d = 1. The entry's number is in the byte after
// d and, from the ninth bit on, in byte `high`.
template <class Entry, std::size_t count>
void read_grid(ggml_type ggml, blocks::Type type, std::size_t high, Entry (&grid)[count]) {
  const auto columns = static_cast<std::size_t>(ggml_blck_size(ggml));
  std::vector<std::uint8_t> block(ggml_type_size(ggml));
  std::vector<float> values(columns);
  block[1] = 0x3C;
  for (std::size_t entry = 0; entry < count; ++entry) {
    block[2] = static_cast<std::uint8_t>(entry & 255);
    if (count > 256) block[high] = static_cast<std::uint8_t>(entry >> 8);
    ggml_get_type_traits(ggml)->to_float(block.data(), values.data(), ggml_blck_size(ggml));
    const float scale = blocks::decode(type, block.data(), 0).scale[0];
    for (std::size_t i = 0; i < sizeof(Entry); ++i) {
      const auto code = static_cast<Entry>(stored_code(type, std::lround(values[i] / scale)));
      grid[entry] |= static_cast<Entry>(code << (8 * i));
    }
  }
}

blocks::Grids grids_of_ggml() {
  using blocks::Type;
  blocks::Grids grids{};
  read_grid(GGML_TYPE_IQ1_S, Type::iq1_s, 34, grids.iq1);
  read_grid(GGML_TYPE_IQ2_S, Type::iq2_s, 66, grids.iq2_s);
  read_grid(GGML_TYPE_IQ2_XS, Type::iq2_xs, 3, grids.iq2_xs);
  read_grid(GGML_TYPE_IQ2_XXS, Type::iq2_xxs, 0, grids.iq2_xxs);
  read_grid(GGML_TYPE_IQ3_S, Type::iq3_s, 66, grids.iq3_s);
  read_grid(GGML_TYPE_IQ3_XXS, Type::iq3_xxs, 0, grids.iq3_xxs);
  return grids;
}

}  // namespace

blocks::Type with_grids(blocks::Type type) {
  if (!blocks::has_grid(type)) return type;
  [[maybe_unused]] static const bool are_set = [] {
    blocks::set_grids(grids_of_ggml());
    return true;
  }();
  return type;
}

}  // namespace specdec
