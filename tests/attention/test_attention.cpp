// Attention against a plain float64 implementation, and bit for bit across instruction sets and splits of the rows.
// Usage: test_attention ISA.

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "attention/kernels.h"
#include "kernel_test.h"

namespace {

using namespace specdec::attention;
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
    k = random_cells(head_size, decoded_k);
    v = random_cells(value_size, decoded_v);
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

  // [cells][heads][columns]
  std::vector<std::uint8_t> random_cells(int columns, Floats& decoded) {
    std::vector<std::uint8_t> bytes;
    const auto push_half = [&] {
      const auto bits = static_cast<std::uint16_t>((random() & 0x8000) | (12 + random() % 4) << 10 | random() % 1024);
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
    p.scale = type == CacheType::f16 ? 0.125f : 0.125f / 4096;
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
        kernels.read_chunk(p, rows, 0, states.data(), head_states, scratch.data());
        for (int chunk = 1; chunk < p.num_chunks(); ++chunk) {
          kernels.read_chunk(p, rows, chunk, later.data(), head_states, scratch.data());
          for (int h = 0; h < heads_at_a_time; ++h) {
            kernels.merge(value_size, end - row, &states[size(h, head_states)], &later[size(h, head_states)]);
          }
        }
        for (int h = 0; h < heads_at_a_time; ++h) kernels.finish(p, head + h, row, end, &states[size(h, head_states)]);
      }
    }
    return out;
  }

  // Largest error against float64, relative to the largest value.
  double error(const Floats& out) const {
    double worst = 0.0, largest = 0.0;
    Floats unused;
    const double scale = static_cast<double>(problem(unused).scale);
    for (const float x : decoded_v) largest = std::max(largest, std::fabs(static_cast<double>(x)));
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
const Case cases[] = {
    Case(f16, 1, 1, 64, 64, 64, 20),     Case(f16, 1, 8, 64, 64, 1216, 1215),  Case(f16, 8, 8, 64, 64, 576, 560),
    Case(f16, 33, 3, 128, 128, 128, 60), Case(f16, 5, 4, 96, 80, 256, 100),    Case(f16, 3, 2, 192, 128, 64, 10),
    Case(f16, 40, 1, 16, 16, 64, 0),     Case(f16, 2, 1, 256, 256, 128, 126),  Case(q8_0, 1, 1, 64, 64, 64, 20),
    Case(q8_0, 1, 7, 64, 64, 1216, 900), Case(q8_0, 8, 8, 64, 64, 576, 560),   Case(q8_0, 9, 1, 32, 128, 128, 60),
    Case(q8_0, 5, 4, 96, 160, 256, 100), Case(q8_0, 2, 3, 256, 256, 128, 126),
};

}  // namespace

TEST(agrees_with_float64) {
  for (const Case& c : cases) {
    CHECK(c.error(c.run(tested(), max_rows, Case::heads)) < 2e-6);
  }
}

TEST(same_bits_for_every_instruction_set_and_split) {
  for (const Case& c : cases) {
    const Floats expected = c.run(kernels_scalar, max_rows);
    if (&tested() != &kernels_scalar) {
      for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64, max_rows})
        CHECK(same_bits(c.run(tested(), rows), expected));
    }
    CHECK(same_bits(c.run(tested(), 8, Case::heads), expected));
  }
}

TEST(cells_behind_the_mask_change_nothing) {
  for (const int in_view : {128, 576}) {  // of 1216
    const Case c(f16, 4, 2, 64, 64, 1216, 90);
    Case shorter = c;
    shorter.cells = in_view;
    shorter.mask.clear();
    for (int i = 0; i < 4; ++i)
      shorter.mask.insert(shorter.mask.end(), c.mask.begin() + i * 1216, c.mask.begin() + i * 1216 + in_view);
    CHECK(same_bits(c.run(tested(), 8), shorter.run(tested(), 8)));
  }
}

TEST(a_row_with_everything_hidden_is_zero) {
  Case c(f16, 2, 2, 64, 64, 640, 100);
  std::fill(c.mask.begin(), c.mask.begin() + 640, hidden);
  const Floats out = c.run(tested(), 4);
  for (std::size_t i = 0; i < 2 * Case::heads * 64; ++i) CHECK(out[i] == 0.0f);
  CHECK(c.error(out) < 2e-6);
}

TEST(nan_propagates) {
  for (const bool in_query : {true, false}) {
    Case c(f16, 2, 2, 64, 64, 640, 639);
    if (in_query) c.q[0] = std::numeric_limits<float>::quiet_NaN();
    else c.k[1] = 0x7E;  // the first number of head 0
    const Floats out = c.run(tested(), 4);
    CHECK(std::isnan(out[0]) && !std::isnan(out[2 * 64]));  // head 0, head 1
  }
}

KERNEL_TEST_MAIN()
