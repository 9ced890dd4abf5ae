// Attention against a plain float64 statement of it, and bit for bit across instruction sets and splits of the rows.

#include "attention/attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "check.h"
#include "mxfp6/dispatch.h"

namespace {

using namespace specdec::attention;
using Floats = std::vector<float>;

constexpr std::uint16_t hidden = 0xFC00;  // -inf
constexpr double infinity = std::numeric_limits<double>::infinity();

float half(std::uint16_t h) {
  const double magnitude = (h >> 10 & 31) == 0 ? (h & 1023) * 0x1p-24 : std::ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25);
  return static_cast<float>(h & 0x8000 ? -magnitude : magnitude);
}

// Random rows of one key-value head with a causal mask over the last cells.
struct Case {
  Case(int queries_, int group_, int head_size_, int value_size_, int cells_, int first_position)
      : queries(queries_), group(group_), head_size(head_size_), value_size(value_size_), cells(cells_) {
    std::mt19937 random(static_cast<unsigned>(queries * 131 + cells + group));
    const auto size = [](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
    std::normal_distribution<float> normal;
    q.resize(size(queries * group, head_size));
    for (float& x : q) x = normal(random);
    const auto random_half = [&] { return static_cast<std::uint16_t>((random() & 0x8000) | (12 + random() % 4) << 10 | random() % 1024); };
    k.resize(size(cells, head_size));
    v.resize(size(cells, value_size));
    for (auto& x : k) x = random_half();
    for (auto& x : v) x = random_half();
    mask.assign(size(queries, cells), hidden);
    for (int i = 0; i < queries; ++i) {
      for (int c = 0; c <= first_position + i && c < cells; ++c) mask[size(i, cells) + static_cast<std::size_t>(c)] = c % 7 == 3 ? 0xB800 : 0;  // -0.5
    }
  }

  Problem problem(Floats& out) const {
    out.assign(static_cast<std::size_t>(queries * group * value_size), -1.0f);
    Problem p{};
    const auto row = [](int columns, std::size_t bytes) { return static_cast<std::int64_t>(static_cast<std::size_t>(columns) * bytes); };
    p.queries = reinterpret_cast<const char*>(q.data());
    p.query_stride = row(head_size * group, sizeof(float));
    p.query_head_stride = row(head_size, sizeof(float));
    p.keys = reinterpret_cast<const char*>(k.data());
    p.key_stride = row(head_size, 2);
    p.values = reinterpret_cast<const char*>(v.data());
    p.value_stride = row(value_size, 2);
    p.mask = reinterpret_cast<const char*>(mask.data());
    p.mask_stride = row(cells, 2);
    p.out = reinterpret_cast<char*>(out.data());
    p.out_stride = row(value_size * group, sizeof(float));
    p.out_head_stride = row(value_size, sizeof(float));
    p.num_cells = cells;
    p.key_type = p.value_type = CacheType::f16;
    p.head_size = head_size;
    p.value_size = value_size;
    p.group = group;
    p.scale = 0.125f;
    return p;
  }

  // Chunks merged one by one.
  Floats run(const Kernels& kernels, int rows_at_a_time) const {
    const auto state = static_cast<std::size_t>(state_floats(value_size));
    Floats out, states(max_rows * state), later(states.size()), scratch(scratch_floats(head_size, value_size));
    const Problem p = problem(out);
    for (int row = 0; row < queries * group; row += rows_at_a_time) {
      const int end = std::min(queries * group, row + rows_at_a_time);
      kernels.read_chunk(p, {0, 1, row, end}, 0, states.data(), 0, scratch.data());
      for (int chunk = 1; chunk < p.num_chunks(); ++chunk) {
        kernels.read_chunk(p, {0, 1, row, end}, chunk, later.data(), 0, scratch.data());
        kernels.merge(value_size, end - row, states.data(), later.data());
      }
      kernels.finish(p, 0, row, end, states.data());
    }
    return out;
  }

  // Largest error against float64, relative to the largest value.
  double error(const Floats& out) const {
    double worst = 0.0;
    for (int r = 0; r < queries * group; ++r) {
      std::vector<double> scores(static_cast<std::size_t>(cells));
      double top = -infinity, total = 0.0;
      for (int c = 0; c < cells; ++c) {
        const std::uint16_t m = mask[static_cast<std::size_t>(r / group * cells + c)];
        double sum = 0.0;
        for (int d = 0; d < head_size; ++d) {
          sum += static_cast<double>(q[static_cast<std::size_t>(r * head_size + d)]) * static_cast<double>(half(k[static_cast<std::size_t>(c * head_size + d)]));
        }
        scores[static_cast<std::size_t>(c)] = m == hidden ? -infinity : sum * 0.125 + static_cast<double>(half(m));
        top = std::max(top, scores[static_cast<std::size_t>(c)]);
      }
      for (double& s : scores) total += s = top == -infinity ? 0.0 : std::exp(s - top);
      for (int d = 0; d < value_size; ++d) {
        double expected = 0.0;
        for (int c = 0; c < cells; ++c) expected += scores[static_cast<std::size_t>(c)] * static_cast<double>(half(v[static_cast<std::size_t>(c * value_size + d)]));
        if (total > 0.0) expected /= total;
        worst = std::max(worst, std::fabs(expected - static_cast<double>(out[static_cast<std::size_t>(r * value_size + d)])));
      }
    }
    return worst;
  }

  int queries, group, head_size, value_size, cells;
  Floats q;
  std::vector<std::uint16_t> k, v, mask;
};

bool same_bits(const Floats& a, const Floats& b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0; }

const Case cases[] = {
    Case(1, 1, 64, 64, 64, 20),     Case(1, 8, 64, 64, 512, 511), Case(8, 8, 64, 64, 576, 560), Case(33, 3, 128, 128, 128, 60),
    Case(5, 4, 96, 80, 256, 100),   Case(3, 2, 192, 128, 64, 10), Case(40, 1, 16, 16, 64, 0),   Case(2, 1, 256, 256, 128, 126),
};

}  // namespace

TEST(agrees_with_float64) {
  for (const Case& c : cases) {
    for (const auto* isa : specdec::mxfp6::supported_kernels()) CHECK(c.error(c.run(kernels_for(isa->name), max_rows)) < 3e-6);
  }
}

TEST(same_bits_for_every_instruction_set_and_split) {
  for (const Case& c : cases) {
    const Floats expected = c.run(kernels_scalar, max_rows);
    for (const auto* isa : specdec::mxfp6::supported_kernels()) {
      for (const int rows : {1, 2, 3, 4, 5, 8, 64, max_rows}) CHECK(same_bits(c.run(kernels_for(isa->name), rows), expected));
    }
  }
}

TEST(cells_behind_the_mask_change_nothing) {
  const Case c(4, 2, 64, 64, 256, 90);
  Case longer(4, 2, 64, 64, 256, 90);
  longer.cells = 128;  // the same text with less of the cache in view
  std::vector<std::uint16_t> shorter;
  for (int i = 0; i < 4; ++i) shorter.insert(shorter.end(), longer.mask.begin() + i * 256, longer.mask.begin() + i * 256 + 128);
  longer.mask = shorter;
  CHECK(same_bits(c.run(kernels_scalar, 8), longer.run(kernels_scalar, 8)));
}

TEST(a_row_with_everything_hidden_is_zero) {
  Case c(2, 2, 64, 64, 128, 100);
  std::fill(c.mask.begin(), c.mask.begin() + 128, hidden);
  for (const auto* isa : specdec::mxfp6::supported_kernels()) {
    const Floats out = c.run(kernels_for(isa->name), 4);
    for (std::size_t i = 0; i < 128; ++i) CHECK(out[i] == 0.0f);
    CHECK(c.error(out) < 3e-6);
  }
}

TEST_MAIN()
