// Every instruction set's kernel against the scalar one, bit for bit, and against float64. Usage: test_kernels NAME;
// skipped if this CPU lacks it. tests/graph/test_blocks.cpp compares the decoded weights with ggml's.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernel_test.h"
#include "weights/blocks/grids.h"
#include "weights/blocks/kernels.h"

using namespace specdec::blocks;

using check::same;

namespace {

const Kernels& tested() { return check::tested(all_kernels()); }

using Floats = std::vector<float>;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint64_t recorded_hash = 0x8ce21557f650751au;
constexpr std::uint64_t recorded_tiles = 0xc723b0309bbeb332u;  // of layout 1

std::size_t size(std::int64_t a, std::int64_t b = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

std::vector<Type> all_types() { return {block_types.types, block_types.types + num_types}; }

// Where the F16 numbers of a block are.
std::vector<int> half_places(Type type) {
  switch (type) {
    case Type::q4_1:
    case Type::q5_1:
    case Type::q4_k:
    case Type::q5_k:
      return {0, 2};
    case Type::q2_k:
      return {80, 82};
    case Type::q3_k:
      return {108};
    case Type::q6_k:
      return {208};
    case Type::tq1_0:
      return {52};
    case Type::tq2_0:
      return {64};
    case Type::mxfp4:
    case Type::nvfp4:
    case Type::iq1_m:
      return {};
    default:
      return {0};
  }
}

// Like ggml's, with every magnitude; tests/graph/test_blocks.cpp has ggml's own.
[[maybe_unused]] const bool grids_are_set = [] {
  std::uint64_t state = 7;
  const auto fill = [&](auto& grid, int lowest, int count) {
    for (auto& entry : grid) {
      entry = 0;
      for (unsigned byte = 0; byte < sizeof entry; ++byte) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t code =
            static_cast<std::uint64_t>(lowest) + (state >> 33) % static_cast<std::uint64_t>(count);
        entry |= static_cast<std::remove_reference_t<decltype(entry)>>(code << (8 * byte));
      }
    }
  };
  Grids grids{};
  fill(grids.iq1, 0, 3);
  fill(grids.iq2_s, 0, 3);
  fill(grids.iq2_xs, 0, 3);
  fill(grids.iq2_xxs, 0, 3);
  fill(grids.iq3_s, 8, 8);
  fill(grids.iq3_xxs, 0, 8);
  set_grids(grids);
  return true;
}();

// IQ1_M: d in the high halves of four bytes.
void set_d_of_iq1_m(std::uint8_t* block, std::uint32_t bits) {
  for (unsigned i = 0; i < 4; ++i) {
    std::uint8_t& byte = block[49 + 2 * i];
    byte = static_cast<std::uint8_t>((byte & 15) | (bits >> (4 * i) & 15) << 4);
  }
}

struct Weights {
  Type type;
  std::int64_t rows, k, row_bytes;
  std::vector<std::uint8_t> memory;
  std::vector<std::uint8_t> tiles = {};  // of tiles.h, if any
  Matrix matrix() const {                // no alignment is needed
    return {type, memory.data() + 1, row_bytes, k, tiles.empty() ? nullptr : tiles.data() + 1};
  }
  std::uint8_t* block(std::int64_t row, std::int64_t i) {
    return memory.data() + 1 + row * row_bytes + i * format_of(type).bytes;
  }
};

// Random bytes, so that every code and every small scale occurs; F16 numbers around 1 of either sign, now and then zero
// or denormal.
Weights random_weights(Type type, std::int64_t rows, std::int64_t k, unsigned seed) {
  std::mt19937 random(seed);
  const std::int64_t gap = format_of(type).bytes;  // between rows, as a view has it
  Weights w{type, rows, k, row_bytes(type, k) + gap, {}, {}};
  w.memory.resize(size(rows, w.row_bytes) + 1);
  for (auto& byte : w.memory) byte = static_cast<std::uint8_t>(random());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t b = 0; b < k / format_of(type).columns; ++b) {
      if (type == Type::mxfp4)
        *w.block(r, b) = static_cast<std::uint8_t>(random() % 32 == 0 ? random() % 3 : 120 + random() % 16);
      const auto random_half = [&] {
        const auto number = static_cast<std::uint32_t>(random());
        std::uint32_t half = (number & 0x8000) | (12 + (number >> 16) % 6) << 10 | (number & 1023);
        if (number >> 27 == 0) half = number & 0x83FF;
        if (number >> 27 == 1) half = 0;
        return half;
      };
      if (type == Type::iq1_m) set_d_of_iq1_m(w.block(r, b), random_half());
      for (const int at : half_places(type)) {
        const auto bits = static_cast<std::uint16_t>(random_half());
        std::memcpy(w.block(r, b) + at, &bits, sizeof bits);
      }
    }
  }
  return w;
}

// The same with a copy in tiles, and nothing to read elsewhere.
Weights in_tiles(const Weights& from) {
  Weights w = from;
  w.tiles.resize(size(tiles_bytes(w.type, w.rows, w.k)) + 1);
  for (std::int64_t row = 0; row < w.rows; row += tile_rows) {
    const int rows = static_cast<int>(std::min<std::int64_t>(tile_rows, w.rows - row));
    write_tile(w.type, w.block(row, 0), w.row_bytes, rows, w.k,
               w.tiles.data() + 1 + row / tile_rows * tile_bytes(w.type, w.k));
  }
  std::fill(w.memory.begin(), w.memory.end(), std::uint8_t{0xEE});
  return w;
}

Floats random_activations(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x(size(count));
  for (float& value : x) value = normal(random) * (random() % 64 == 0 ? 30.0f : 1.0f);
  return x;
}

std::vector<PanelBlock> packed(const Kernels& kernels, Type type, const Floats& x, std::int64_t n, std::int64_t k) {
  std::vector<PanelBlock> panel(panel_bytes(n, k) / sizeof(PanelBlock));
  for (std::int64_t c = 0; c < n; ++c) {
    const std::int64_t middle = k / block_size / 2;  // in two parts, as threads do
    kernels.pack(type, &x[size(c, k)], n, k, c, 0, middle, panel.data());
    kernels.pack(type, &x[size(c, k)], n, k, c, middle, k / block_size, panel.data());
  }
  return panel;
}

// out[n][rows]
Floats multiply(const Kernels& kernels, const Weights& w, const Floats& x, std::int64_t n,
                std::int64_t rows_at_a_time = 1 << 20) {
  const auto panel = packed(kernels, w.type, x, n, w.k);
  Floats out(size(n, w.rows), not_a_number);
  std::vector<std::uint8_t> scratch(scratch_bytes(n));
  for (std::int64_t row = 0; row < w.rows; row += rows_at_a_time) {
    kernels.matmul(w.matrix(), panel.data(), n, row, std::min(w.rows, row + rows_at_a_time), out.data() + row, w.rows,
                   scratch.data());
  }
  return out;
}

std::vector<double> decoded_row(Weights& w, std::int64_t row) {
  std::vector<double> values;
  const Format& format = format_of(w.type);
  for (std::int64_t b = 0; b < w.k / format.columns; ++b) {
    for (int part = 0; part < format.columns / 32; ++part) {
      const Weights32 d = decode(w.type, w.block(row, b), part);
      for (int i = 0; i < 32; ++i) {
        values.push_back(static_cast<double>(d.scale[i / format.group]) * d.code[i] +
                         static_cast<double>(d.offset[i / format.group]));
      }
    }
  }
  return values;
}

}  // namespace

TEST(only_sets_without_half_precision_conversion_get_the_scalar_kernel) {
  const bool converts = (check::tested_isa().usable() & (specdec::cpu::f16c | specdec::cpu::neon)) != 0;
  CHECK((&tested() == &kernels_scalar) == !converts);
}

TEST(codes_lie_in_the_range_the_format_names) {
  for (const Type type : all_types()) {
    Weights w = random_weights(type, 200, 512, 1);
    int lowest = 127, highest = -128;
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t b = 0; b < w.k / format_of(type).columns; ++b) {
        for (int part = 0; part < format_of(type).columns / 32; ++part) {
          for (const std::int8_t code : decode(type, w.block(r, b), part).code) {
            lowest = std::min<int>(lowest, code);
            highest = std::max<int>(highest, code);
          }
        }
      }
    }
    CHECK(lowest == format_of(type).lowest && highest == format_of(type).highest);
  }
}

TEST(tiles_hold_the_numbers_of_the_file) {
  for (const Type type : all_types()) {
    const Format& format = format_of(type);
    Weights w = random_weights(type, 21, 768, 4);
    const Weights tiled = in_tiles(w);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t b = 0; b < w.k / format.columns; ++b) {
        const std::uint8_t* tile_block =
            tiled.matrix().tiles + r / tile_rows * tile_bytes(type, w.k) + b * tile_block_bytes(type);
        for (int part = 0; part < format.columns / 32; ++part) {
          const Stored32 a = stored(type, w.block(r, b), part),
                         c = stored_in_tile(type, tile_block, static_cast<int>(r % tile_rows), part);
          CHECK(std::memcmp(&a, &c, sizeof a) == 0);
        }
      }
    }
  }
}

TEST(panels_have_equal_bytes) {
  constexpr std::int64_t k = 64 * block_size;
  for (const Type type : {Type::q4_k, Type::q6_k, Type::q8_0, Type::q3_k, Type::iq1_s}) {
    for (const std::int64_t n : {1, 3, 8, 11}) {
      Floats x = random_activations(n * k, static_cast<unsigned>(n));
      // Ties: multiples of 1/2 with a maximum of 127 divide without rounding.
      for (std::size_t i = 0; i < block_size; ++i) x[i] = static_cast<float>(i) - 16.5f;
      x[0] = 127.0f;
      for (std::size_t i = 32; i < 64; ++i) x[i] = 0.0f;
      for (std::size_t i = 64; i < 96; ++i) x[i] *= 1e-38f;
      for (std::size_t i = 96; i < 128; ++i) x[i] *= 1e-33f;
      for (std::size_t i = 128; i < 160; ++i) x[i] *= 1e36f;
      for (std::size_t i = 160; i < 192; ++i) x[i] = std::numeric_limits<float>::max() * (i % 2 == 0 ? 1.0f : -1.0f);
      for (std::size_t i = 192; i < 224; ++i) x[i] = 0x1p-110f * (i % 3 == 0 ? 1.0f : -0.999f);
      for (std::size_t i = 224; i < 256; ++i) x[i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i);
      const auto a = packed(tested(), type, x, n, k), b = packed(kernels_scalar, type, x, n, k);
      CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(PanelBlock)) == 0);
    }
  }
}

TEST(products_have_equal_bits_for_any_number_of_columns_and_rows) {
  for (const Type type : all_types()) {
    for (const std::int64_t k : {format_of(type).columns, 768, 1280}) {
      const Weights w = random_weights(type, k == 768 ? 37 : 17, k, static_cast<unsigned>(k));
      std::vector<std::int64_t> counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64};
      if (check::is_emulated()) counts = {1, 2, 3, 4, 5, 8, 11, 17};
      for (const std::int64_t n : counts) {
        const Floats x = random_activations(n * k, static_cast<unsigned>(n));
        const Floats expected = multiply(kernels_scalar, w, x, n);
        CHECK(same(multiply(tested(), w, x, n), expected));
        CHECK(same(multiply(tested(), in_tiles(w), x, n), expected));
      }
    }
  }
}

// The largest codes and activations, all of one sign: what would saturate or overflow first.
TEST(extreme_numbers_do_not_overflow) {
  for (const Type type : all_types()) {
    for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
      Weights w = random_weights(type, 16, 512, 3);
      for (std::int64_t r = 0; r < w.rows; ++r) {
        for (std::int64_t b = 0; b < w.k / format_of(type).columns; ++b) {
          std::uint8_t* block = w.block(r, b);
          std::vector<std::uint8_t> halves;
          for (const int at : half_places(type)) halves.insert(halves.end(), block + at, block + at + 2);
          std::memset(block, fill, size(format_of(type).bytes));
          std::size_t next = 0;
          for (const int at : half_places(type)) std::memcpy(block + at, &halves[2 * next++], 2);
          if (type == Type::iq1_m) set_d_of_iq1_m(block, 0x3C00);
        }
      }
      for (const float sign : {1.0f, -1.0f}) {
        const Floats x(size(3, w.k), sign);
        const Floats expected = multiply(kernels_scalar, w, x, 3);
        CHECK(same(multiply(tested(), w, x, 3), expected));
        CHECK(same(multiply(tested(), in_tiles(w), x, 3), expected));
      }
    }
  }
}

// Scale codes and codes at their limits in every mixture, as -4 * -32 of Q3_K, which fits no int8, and activations of
// 127 whose signs change between groups: the sums of two groups share an integer, and many columns share folded codes.
TEST(scale_codes_at_their_limits_are_multiplied_exactly) {
  bool has_q3_k_corner = false, has_iq1_m_corner = false;
  struct ExtremeGrid {
    ExtremeGrid() {
      Grids extreme = usual;
      extreme.iq1[0] = 0;
      extreme.iq1[2047] = 0x0202020202020202u;
      set_grids(extreme);
    }
    ~ExtremeGrid() { set_grids(usual); }
    const Grids usual = grids();
  };
  const ExtremeGrid extreme;
  for (const Type type : all_types()) {
    if (!adds_groups(type) && !has_eighths(type)) continue;
    Weights w = random_weights(type, 32, 512, 13);
    std::mt19937 random(14);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t b = 0; b < w.k / format_of(type).columns; ++b) {
        std::uint8_t* block = w.block(r, b);
        constexpr std::uint8_t limits[4] = {0x00, 0xFF, 0x0F, 0xF0};
        for (int i = 0; i < format_of(type).bytes; ++i) block[i] = r == 0 ? 0 : limits[random() % (r < 8 ? 2 : 4)];
        constexpr std::uint16_t one = 0x3C00;
        for (const int at : half_places(type)) std::memcpy(block + at, &one, sizeof one);
        if (type == Type::iq1_m) set_d_of_iq1_m(block, one);
        if (type == Type::iq1_m && r == 1) {  // the highest codes: 16 of 18 - 9 exceed 16 bits while they are unsigned
          std::memset(block, 0xFF, 32);
          std::memset(block + 32, 0x77, 16);
        }
        const Stored32 numbers = stored(type, block, 0);
        has_iq1_m_corner |= type == Type::iq1_m && r == 1 && code_of(type, numbers.code[31]) == 9;
        has_q3_k_corner |= type == Type::q3_k && numbers.scale_code[0] == -32 && code_of(type, numbers.code[0]) == -4;
      }
    }
    for (const std::int64_t n : {1, 2, 3, 4, 7, 8, 17, 35}) {
      Floats x(size(n, w.k));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t group = i / 16, column = i / size(w.k);  // columns 0 and 1: of one sign
        x[i] = column < 2 ? 1.0f - 2.0f * static_cast<float>(column) : (group * 7 + column) % 3 == 0 ? -1.0f : 1.0f;
        if (column % 4 == 3 && random() % 2 == 0) x[i] = -x[i];
      }
      const Floats expected = multiply(kernels_scalar, w, x, n);
      CHECK(same(multiply(tested(), w, x, n), expected));
      CHECK(same(multiply(tested(), in_tiles(w), x, n), expected));
    }
  }
  CHECK(has_q3_k_corner && has_iq1_m_corner);
}

TEST(any_split_of_the_rows_gives_the_same_bits) {
  for (const Type type : all_types()) {
    const Weights w = random_weights(type, 53, 512, 5);
    for (const std::int64_t n : {1, 4, 19}) {
      const Floats x = random_activations(n * w.k, 2), whole = multiply(tested(), w, x, n);
      for (const std::int64_t rows : {1, 5, 16, 31}) CHECK(same(multiply(tested(), w, x, n, rows), whole));
      for (const std::int64_t rows : {16, 32}) CHECK(same(multiply(tested(), in_tiles(w), x, n, rows), whole));
    }
  }
}

TEST(a_column_does_not_depend_on_its_neighbours) {
  for (const Type type : all_types()) {
    const Weights w = random_weights(type, 18, 1024, 8);
    constexpr std::int64_t n = 21;
    const Floats x = random_activations(n * w.k, 3), together = multiply(tested(), w, x, n);
    for (std::int64_t c = 0; c < n; ++c) {
      const Floats one(x.begin() + c * w.k, x.begin() + (c + 1) * w.k);
      const Floats expected(together.begin() + c * w.rows, together.begin() + (c + 1) * w.rows);
      CHECK(same(multiply(tested(), w, one, 1), expected));
    }
  }
}

TEST(a_bad_activation_spoils_its_column_and_no_other) {
  for (const Type type : all_types()) {
    const Weights w = random_weights(type, 18, 512, 7);
    for (const float bad : {not_a_number, infinity, -infinity}) {
      for (const std::int64_t n : {1, 2, 8, 12}) {
        Floats x = random_activations(n * w.k, 8);
        const Floats clean = multiply(tested(), w, x, n);
        const std::int64_t spoiled = n / 2;
        x[size(spoiled, w.k) + 65] = bad;
        const Floats out = multiply(tested(), w, x, n);
        for (std::int64_t i = 0; i < n * w.rows; ++i) {
          const auto at = size(i);
          if (i / w.rows == spoiled) CHECK(std::isnan(out[at]));
          else CHECK(out[at] == clean[at]);
        }
      }
    }
  }
}

TEST(products_are_as_close_to_exact_arithmetic_as_rounded_activations_allow) {
  for (const Type type : all_types()) {
    Weights w = random_weights(type, 20, 1024, 9);
    constexpr std::int64_t n = 5;
    const Floats x = random_activations(n * w.k, 6), out = multiply(tested(), w, x, n);
    double largest_error = 0;
    for (std::int64_t r = 0; r < w.rows; ++r) {
      const std::vector<double> row = decoded_row(w, r);
      for (std::int64_t c = 0; c < n; ++c) {
        double exact = 0, bound = 0, magnitude = 0;
        for (std::int64_t block = 0; block < w.k / block_size; ++block) {
          double largest = 0, weight_sum = 0;
          for (std::int64_t i = block * block_size; i < (block + 1) * block_size; ++i) {
            const double a = static_cast<double>(x[size(c, w.k) + size(i)]), v = row[size(i)];
            exact += a * v;
            magnitude += std::fabs(a) * 40 * std::fabs(v);
            largest = std::max(largest, std::fabs(a));
            weight_sum += std::fabs(v);
          }
          bound += weight_sum * largest / 127 * 0.5;
        }
        const double error = std::fabs(static_cast<double>(out[size(c, w.rows) + size(r)]) - exact);
        CHECK(error <= bound * 1.0001 + magnitude * 64 * 0x1p-24);
        largest_error = std::max(largest_error, error / bound);
      }
    }
    CHECK(largest_error > 0);  // the comparison sees rounding
  }
}

TEST(only_the_rows_asked_for_are_written_and_scratch_is_not_exceeded) {
  constexpr std::uint8_t guard = 0xA5;
  for (const Type type : all_types()) {
    const Weights w = random_weights(type, 60, 512, 11);
    for (const std::int64_t n : {1, 5, 10, 17}) {
      const Floats x = random_activations(n * w.k, 12), expected = multiply(kernels_scalar, w, x, n);
      const auto panel = packed(tested(), type, x, n, w.k);
      for (const bool tiles : {false, true}) {
        const Weights weights = tiles ? in_tiles(w) : w;
        const std::int64_t first = tiles ? 16 : 13;
        constexpr std::int64_t ldo = 70;
        Floats out(size(n, ldo), 123.0f);
        std::vector<std::uint8_t> scratch(scratch_bytes(n) + 64, guard);
        tested().matmul(weights.matrix(), panel.data(), n, first, 47, out.data() + first, ldo, scratch.data());
        for (std::int64_t c = 0; c < n; ++c) {
          for (std::int64_t r = 0; r < ldo; ++r) {
            const bool written = r >= first && r < 47;
            CHECK(out[size(c, ldo) + size(r)] == (written ? expected[size(c, w.rows) + size(r)] : 123.0f));
          }
        }
        for (std::size_t i = scratch.size() - 64; i < scratch.size(); ++i) CHECK(scratch[i] == guard);
      }
    }
  }
}

// The same bits on every architecture, not only compared with this machine's scalar code: a hash of products of numbers
// that need no library to make (64-bit congruential), written down once.
TEST(products_have_the_recorded_bits) {
  std::uint64_t state = 42, hash = 14695981039346656037u, hash_of_tiles = hash, tiles = hash;
  const auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u; };
  for (const Type type : all_types()) {
    Weights w{type, 19, 512, row_bytes(type, 512), std::vector<std::uint8_t>(1 + size(19, row_bytes(type, 512))), {}};
    for (auto& byte : w.memory) byte = static_cast<std::uint8_t>(next() >> 56);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t b = 0; b < w.k / format_of(type).columns; ++b) {
        for (const int at : half_places(type)) w.block(r, b)[at + 1] = static_cast<std::uint8_t>(0x30 + (next() >> 61));
        if (type == Type::iq1_m)
          set_d_of_iq1_m(w.block(r, b), static_cast<std::uint32_t>(0x3000 + (next() >> 61 << 8)));
      }
    }
    constexpr std::int64_t n = 11;
    Floats x(size(n, w.k));
    for (auto& value : x) value = static_cast<float>(static_cast<std::int64_t>(next()) >> 40) * 0x1p-20f;
    for (const float value : multiply(tested(), w, x, n)) check::add_bits(hash, value);
    for (const float value : multiply(tested(), in_tiles(w), x, n)) check::add_bits(hash_of_tiles, value);
    for (const std::uint8_t byte : in_tiles(w).tiles) tiles = (tiles ^ byte) * 0x100000001b3u;
  }
  if (hash != recorded_hash) std::printf("hash %#llx\n", static_cast<unsigned long long>(hash));
  CHECK(hash == recorded_hash && hash_of_tiles == recorded_hash);
  // Tiles are kept on disk: with other bytes tile_layout must be raised.
  if (tiles != recorded_tiles) std::printf("tiles %#llx\n", static_cast<unsigned long long>(tiles));
  CHECK(tiles == recorded_tiles && tile_layout == 1);
}

KERNEL_TEST_MAIN()
