// Attention against a plain float64 implementation, and bit for bit across instruction sets and splits of the rows.
// Usage: test_attention ISA.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "attention/kernels.h"
#include "kernel_test.h"

namespace {

using namespace specdec::attention;
using specdec::idx;
using Floats = std::vector<float>;

constexpr std::uint16_t hidden = 0xFC00;  // -inf
constexpr double infinity = std::numeric_limits<double>::infinity();

float half(std::uint16_t h) {
  const double magnitude =
      (h >> 10 & 31) == 0 ? (h & 1023) * 0x1p-24 : std::ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25);
  return static_cast<float>(h & 0x8000 ? -magnitude : magnitude);
}

// Random rows of two key-value heads with a causal mask over the last cells. Keys and values in the cache's format and
// decoded.
struct Case {
  Case(CacheType type_, int queries_, int group_, int head_size_, int value_size_, int cells_, int first_position)
      : type(type_), queries(queries_), group(group_), head_size(head_size_), value_size(value_size_), cells(cells_) {
    std::normal_distribution<float> normal;
    q.resize(size(queries * group * heads, head_size));
    for (float& x : q) x = normal(random);
    k = random_cells(head_size, true, decoded_k);
    v = random_cells(value_size, type == CacheType::f16, decoded_v);
    mask.assign(size(queries, cells), hidden);
    for (int i = 0; i < queries; ++i) {
      for (int c = 0; c <= first_position + i && c < cells; ++c)
        mask[size(i, cells) + static_cast<std::size_t>(c)] = c % 7 == 3 ? 0xB800 : 0;  // -0.5
    }
  }

  static constexpr int heads = 2;

  static std::size_t size(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }
  std::size_t row_bytes(int columns) const {
    return type == CacheType::f16 ? size(columns, 2) : size(columns / 32, 34);
  }
  int num_rows() const { return queries * group; }

  // [cells][heads][columns]. No quantizer writes negative scales of Q8_0, but any may occur in keys.
  std::vector<std::uint8_t> random_cells(int columns, bool is_signed, Floats& decoded) {
    std::vector<std::uint8_t> bytes;
    const auto push_half = [&] {
      const auto bits = static_cast<std::uint16_t>((random() & (is_signed ? 0x8000 : 0)) | (12 + random() % 4) << 10 |
                                                   random() % 1024);
      bytes.push_back(static_cast<std::uint8_t>(bits));
      bytes.push_back(static_cast<std::uint8_t>(bits >> 8));
      return half(bits);
    };
    for (int i = 0; i < cells * heads * columns; i += type == CacheType::f16 ? 1 : 32) {
      const float number = push_half();
      if (type == CacheType::f16) decoded.push_back(number);
      for (int j = 0; type == CacheType::q8_0 && j < 32; ++j) {
        bytes.push_back(static_cast<std::uint8_t>(random()));
        decoded.push_back(number * static_cast<float>(static_cast<std::int8_t>(bytes.back())));
      }
    }
    return bytes;
  }

  Problem problem(Floats& out) const {
    out.assign(size(num_rows() * heads, value_size), -1.0f);
    Problem p{};
    const auto bytes = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    p.queries = reinterpret_cast<const char*>(q.data());
    p.query_stride = bytes(size(head_size * group * heads, sizeof(float)));
    p.query_head_stride = bytes(size(head_size, sizeof(float)));
    p.keys = reinterpret_cast<const char*>(k.data());
    p.key_stride = bytes(heads * row_bytes(head_size));
    p.key_head_stride = bytes(row_bytes(head_size));
    p.values = reinterpret_cast<const char*>(v.data());
    p.value_stride = bytes(heads * row_bytes(value_size));
    p.value_head_stride = bytes(row_bytes(value_size));
    p.mask = reinterpret_cast<const char*>(mask.data());
    p.mask_stride = bytes(size(cells, 2));
    p.out = reinterpret_cast<char*>(out.data());
    p.out_stride = bytes(size(value_size * group * heads, sizeof(float)));
    p.out_head_stride = bytes(size(value_size, sizeof(float)));
    p.num_cells = cells;
    p.type = type;
    p.head_size = head_size;
    p.value_size = value_size;
    p.group = group;
    p.scale = type == CacheType::f16 ? 0.125f : 0.125f / 64;
    p.in_floats = in_floats;
    return p;
  }

  // Chunks merged one by one; heads together or one by one.
  Floats run(const Kernels& kernels, int rows_at_a_time, int heads_at_a_time = 1) const {
    const int state = state_floats(value_size), head_states = max_rows * state;
    Floats out, states(size(heads, head_states)), later(states.size()), scratch(scratch_floats(head_size, value_size));
    const Problem p = problem(out);
    for (int head = 0; head < heads; head += heads_at_a_time) {
      for (int row = 0; row < num_rows(); row += rows_at_a_time) {
        const int end = std::min(num_rows(), row + rows_at_a_time);
        const Rows rows{head, head + heads_at_a_time, row, end};
        kernels.read(p, rows, chunk_range(0, p.num_cells), states.data(), head_states, scratch.data());
        for (int chunk = 1; chunk < p.num_chunks(); ++chunk) {
          kernels.read(p, rows, chunk_range(chunk, p.num_cells), later.data(), head_states, scratch.data());
          for (int h = 0; h < heads_at_a_time; ++h) {
            kernels.merge(value_size, end - row, &states[size(h, head_states)], &later[size(h, head_states)]);
          }
        }
        for (int h = 0; h < heads_at_a_time; ++h) kernels.finish(p, head + h, row, end, &states[size(h, head_states)]);
      }
    }
    return out;
  }

  static std::int8_t byte_of(const std::vector<std::uint8_t>& cells_, std::size_t row, int columns, int d) {
    return static_cast<std::int8_t>(cells_[row * size(columns / 32, 34) + size(d / 32, 34) + 2 + idx(d % 32)]);
  }
  static double scale_of(const std::vector<std::uint8_t>& cells_, std::size_t row, int columns, int d) {
    const std::uint8_t* block = &cells_[row * size(columns / 32, 34) + size(d / 32, 34)];
    return static_cast<double>(half(static_cast<std::uint16_t>(block[0] | block[1] << 8)));
  }

  // The arithmetic in integers, with exact sums: [rows of all heads][value_size].
  std::vector<double> rounded_reference() const {
    std::vector<double> result;
    Floats unused;
    const float factor = problem(unused).scale;
    for (int r = 0; r < num_rows() * heads; ++r) {
      const int query = r / group / heads, head = r / group % heads;
      const float* numbers = &q[size(r, head_size)];
      std::vector<double> scores(idx(cells), 0.0), weights(idx(cells)), sums(idx(value_size), 0.0);
      for (int b = 0; b < head_size; b += 32) {
        float largest = 0.0f;
        for (int d = b; d < b + 32; ++d) largest = std::max(largest, std::fabs(numbers[d] * factor));
        for (int c = 0; c < cells; ++c) {
          std::int64_t dot = 0;
          for (int d = b; d < b + 32; ++d) {
            const auto rounded = static_cast<std::int64_t>(std::nearbyint(numbers[d] * factor * (127.0f / largest)));
            dot += rounded * byte_of(k, size(c, heads) + idx(head), head_size, d);
          }
          const double scales =
              static_cast<double>(largest) / 127 * scale_of(k, size(c, heads) + idx(head), head_size, b);
          scores[idx(c)] += static_cast<double>(dot) * scales;
        }
      }
      double top = -infinity, total = 0.0;
      for (int c = 0; c < cells; ++c) {
        const std::uint16_t m = mask[size(query, cells) + idx(c)];
        scores[idx(c)] = m == hidden ? -infinity : scores[idx(c)] + static_cast<double>(half(m));
      }
      for (int first = 0; first < cells; first += block_cells) {
        if (first % chunk_cells == 0) top = -infinity;  // a chunk's weights are relative to its own maximum
        for (int c = first; c < first + block_cells; ++c) top = std::max(top, scores[idx(c)]);
        if (top == -infinity) continue;
        const double all = *std::max_element(scores.begin(), scores.end());
        for (int c = first; c < first + block_cells; ++c) total += std::exp(scores[idx(c)] - all);
        for (int b = 0; b < value_size; b += 32) {
          double largest = 0.0;
          std::vector<double> u;
          for (int c = first; c < first + block_cells; ++c) {
            u.push_back(std::exp(scores[idx(c)] - top) * scale_of(v, size(c, heads) + idx(head), value_size, b));
            largest = std::max(largest, u.back());
          }
          if (largest < 1e-30) continue;
          for (int d = b; d < b + 32; ++d) {
            std::int64_t dot = 0;
            for (int c = first; c < first + block_cells; ++c) {
              dot += static_cast<std::int64_t>(std::nearbyint(u[idx(c - first)] * 127 / largest)) *
                     byte_of(v, size(c, heads) + idx(head), value_size, d);
            }
            sums[idx(d)] += static_cast<double>(dot) * largest / 127 * std::exp(top - all);
          }
        }
      }
      for (const double sum : sums) result.push_back(total > 0.0 ? sum / total : 0.0);
    }
    return result;
  }

  double largest_value() const {
    double largest = 0.0;
    for (const float x : decoded_v) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    return largest;
  }

  // Largest error against float64, relative to the largest value.
  double error(const Floats& out) const {
    const double largest = largest_value();
    double worst = 0.0;
    Floats unused;
    const double scale = static_cast<double>(problem(unused).scale);
    for (int r = 0; r < num_rows() * heads; ++r) {
      const int query = r / group / heads, head = r / group % heads;
      std::vector<double> scores(static_cast<std::size_t>(cells));
      double top = -infinity, total = 0.0;
      for (int c = 0; c < cells; ++c) {
        const std::uint16_t m = mask[size(query, cells) + static_cast<std::size_t>(c)];
        double sum = 0.0;
        for (int d = 0; d < head_size; ++d) {
          sum += static_cast<double>(q[static_cast<std::size_t>(r * head_size + d)]) *
                 static_cast<double>(decoded_k[static_cast<std::size_t>((c * heads + head) * head_size + d)]);
        }
        scores[static_cast<std::size_t>(c)] = m == hidden ? -infinity : sum * scale + static_cast<double>(half(m));
        top = std::max(top, scores[static_cast<std::size_t>(c)]);
      }
      for (double& s : scores) total += s = top == -infinity ? 0.0 : std::exp(s - top);
      for (int d = 0; d < value_size; ++d) {
        double expected = 0.0;
        for (int c = 0; c < cells; ++c) {
          expected += scores[static_cast<std::size_t>(c)] *
                      static_cast<double>(decoded_v[static_cast<std::size_t>((c * heads + head) * value_size + d)]);
        }
        if (total > 0.0) expected /= total;
        worst = std::max(worst,
                         std::fabs(expected - static_cast<double>(out[static_cast<std::size_t>(r * value_size + d)])));
      }
    }
    return worst / largest;
  }

  CacheType type;
  int queries, group, head_size, value_size, cells;
  bool in_floats = false;
  std::mt19937 random{7};
  Floats q, decoded_k, decoded_v;
  std::vector<std::uint8_t> k, v;
  std::vector<std::uint16_t> mask;
};

const Kernels& tested() { return check::tested(all_kernels()); }

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const CacheType f16 = CacheType::f16, q8_0 = CacheType::q8_0;
const Case all_cases[] = {
    Case(f16, 1, 1, 64, 64, 64, 20),      Case(f16, 1, 8, 64, 64, 1216, 1215),  Case(f16, 8, 8, 64, 64, 576, 560),
    Case(f16, 33, 3, 128, 128, 128, 60),  Case(f16, 5, 4, 96, 80, 256, 100),    Case(f16, 3, 2, 192, 128, 64, 10),
    Case(f16, 40, 1, 16, 16, 64, 0),      Case(f16, 2, 1, 256, 256, 128, 126),  Case(q8_0, 1, 1, 64, 64, 64, 20),
    Case(q8_0, 1, 7, 64, 64, 1216, 900),  Case(q8_0, 8, 8, 64, 64, 576, 560),   Case(q8_0, 9, 1, 32, 128, 128, 60),
    Case(q8_0, 5, 4, 96, 160, 256, 100),  Case(q8_0, 2, 3, 256, 256, 128, 126), Case(q8_0, 13, 10, 32, 32, 128, 115),
    Case(q8_0, 3, 6, 128, 128, 640, 630),
};

// Emulated: those that it does not make take long.
const std::vector<Case>& cases() {
  static const std::vector<Case> chosen = [] {
    std::vector<Case> some;
    for (const Case& c : all_cases) {
      if (!check::is_emulated() || c.queries * c.group * c.head_size * c.cells < 1200000) some.push_back(c);
    }
    return some;
  }();
  return chosen;
}

void put_half(std::vector<std::uint8_t>& cells, std::size_t at, int bits) {
  cells[at] = static_cast<std::uint8_t>(bits);
  cells[at + 1] = static_cast<std::uint8_t>(bits >> 8);
}

}  // namespace

TEST(agrees_with_float64) {
  for (Case c : cases()) {
    c.in_floats = true;
    CHECK(c.error(c.run(tested(), max_rows, Case::heads)) < 2e-6);
  }
}

// Weights whose rounding to int8 is almost halfway may differ by one.
TEST(integers_agree_with_exact_sums_of_the_same_integers) {
  for (const Case& c : cases()) {
    if (c.type == f16) continue;
    const Floats out = c.run(tested(), max_rows);
    const std::vector<double> expected = c.rounded_reference();
    int differing = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double error = std::fabs(static_cast<double>(out[i]) - expected[i]) / c.largest_value();
      CHECK(error < 0.01);
      differing += error > 2e-6;
    }
    CHECK(differing <= static_cast<int>(out.size()) / 100);
    CHECK(c.error(out) < 0.02);
    CHECK(c.error(out) > 1e-5);  // the integers are not the floats
  }
}

TEST(a_sink_with_tiny_values_hides_nothing) {
  Case c(q8_0, 1, 2, 64, 64, 64, 63);
  for (int head = 0; head < Case::heads; ++head) {
    for (int d = 0; d < 64; ++d) {
      for (int r = head * 2; r < head * 2 + 2; ++r) c.q[Case::size(r, 64) + idx(d)] = 1.0f;
      c.k[Case::size(head * 2 + d / 32, 34) + 2 + idx(d % 32)] = 127;  // cell 0
    }
    for (int b = 0; b < 2; ++b) {
      const std::size_t block = Case::size(head * 2 + b, 34);
      put_half(c.k, block, 0x4000);  // 2
      put_half(c.v, block, 0x0001);  // 6e-8
      for (int d = 0; d < 32; ++d) c.decoded_v[Case::size(head * 2 + b, 32) + idx(d)] = 6e-8f;
    }
  }
  c.in_floats = true;
  const Floats expected = c.run(tested(), 2);
  c.in_floats = false;
  const Floats out = c.run(tested(), 2);
  double largest = 0.0, error = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
    error = std::max(error, std::fabs(static_cast<double>(out[i] - expected[i])));
  }
  CHECK(error < 0.05 * largest);
}

// Extremes of bytes, and scales that no quantizer writes.
TEST(same_bits_for_extreme_blocks) {
  for (const int scale : {0x0000, 0x0001, 0x7BFF, 0x8000, 0xBC00, 0x7C00, 0x7E00}) {
    Case c(q8_0, 3, 3, 64, 96, 640, 639);
    for (std::size_t at = 0; at + 34 <= c.v.size(); at += 34 * 31) {
      put_half(c.v, at, scale);
      std::fill(c.v.begin() + static_cast<std::ptrdiff_t>(at) + 2, c.v.begin() + static_cast<std::ptrdiff_t>(at) + 34,
                at % 2 == 0 ? 0x80 : 0x7F);
    }
    for (std::size_t at = 0; at + 34 <= c.k.size(); at += 34 * 29) {
      std::fill(c.k.begin() + static_cast<std::ptrdiff_t>(at) + 2, c.k.begin() + static_cast<std::ptrdiff_t>(at) + 34,
                at % 3 == 0 ? 0x80 : 0x81);
    }
    for (std::size_t i = 0; i < 64; ++i) c.q[i] = i % 2 == 0 ? -1.0f : 1.0f;
    for (std::size_t i = 64; i < 128; ++i) c.q[i] = i < 96 ? 0.0f : 1e-33f;
    const Floats expected = c.run(kernels_scalar, max_rows);
    for (const int rows : {1, 4, max_rows}) CHECK(check::same(c.run(tested(), rows, Case::heads), expected));
    c.in_floats = true;
    const Floats in_floats = c.run(tested(), max_rows);
    CHECK(std::isnan(expected[0]) == std::isnan(in_floats[0]));
    c.in_floats = false;
    for (std::size_t at = 2; at < c.v.size(); at += 34) c.v[at] = static_cast<std::uint8_t>(c.v[at] ^ 1);
    if (scale < 0x7C00 && scale > 1) CHECK(!check::same(c.run(tested(), max_rows), expected));
  }
}

// Negative scales of values are added in F32, as exactly as before.
TEST(values_with_unusual_scales_keep_their_accuracy) {
  Case c(q8_0, 2, 2, 64, 64, 64, 63);
  for (int row = 0; row < 64 * Case::heads; ++row) {
    for (int b = 0; b < 2; ++b) {
      const std::size_t block = Case::size(row * 2 + b, 34);
      if (row % 9 == 4) c.v[block + 1] |= 0x80;
      for (int d = 0; row % 9 == 4 && d < 32; ++d) c.decoded_v[Case::size(row * 2 + b, 32) + idx(d)] *= -1.0f;
    }
  }
  CHECK(c.error(c.run(tested(), max_rows)) < 0.02);
}

TEST(same_bits_for_every_instruction_set_and_split) {
  std::vector<int> splits = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64, max_rows};
  if (check::is_emulated()) splits = {1, 7, 64};
  for (const Case& c : cases()) {
    const Floats expected = c.run(kernels_scalar, max_rows);
    if (&tested() != &kernels_scalar) {
      for (const int rows : splits) CHECK(same_bits(c.run(tested(), rows), expected));
    }
    CHECK(same_bits(c.run(tested(), 8, Case::heads), expected));
  }
}

TEST(cells_behind_the_mask_change_nothing) {
  for (const CacheType type : {f16, q8_0})
    for (const int in_view : {128, 576}) {  // of 1216
      const Case c(type, 4, 2, 64, 64, 1216, 90);
      Case shorter = c;
      shorter.cells = in_view;
      shorter.mask.clear();
      for (int i = 0; i < 4; ++i)
        shorter.mask.insert(shorter.mask.end(), c.mask.begin() + i * 1216, c.mask.begin() + i * 1216 + in_view);
      CHECK(same_bits(c.run(tested(), 8), shorter.run(tested(), 8)));
    }
}

TEST(a_row_with_everything_hidden_is_zero) {
  for (const CacheType type : {f16, q8_0}) {
    Case c(type, 2, 2, 64, 64, 640, 100);
    c.in_floats = true;
    std::fill(c.mask.begin(), c.mask.begin() + 640, hidden);
    const Floats out = c.run(tested(), 4);
    for (std::size_t i = 0; i < 2 * Case::heads * 64; ++i) CHECK(out[i] == 0.0f);
    CHECK(c.error(out) < 2e-6);
  }
}

TEST(nan_propagates) {
  for (const CacheType type : {f16, q8_0}) {
    for (const bool in_query : {true, false}) {
      Case c(type, 2, 2, 64, 64, 640, 639);
      if (in_query) c.q[0] = std::numeric_limits<float>::quiet_NaN();
      else c.k[1] = 0x7E;  // the first number, or scale, of head 0
      const Floats out = c.run(tested(), 4);
      CHECK(std::isnan(out[0]) && !std::isnan(out[2 * 64]));  // head 0, head 1
    }
  }
}

KERNEL_TEST_MAIN()
