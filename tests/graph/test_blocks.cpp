// Stock quantized matrices in ggml graphs made by hand: layouts as ggml reads them, views, permuted activations,
// several matrices, experts, and the error compared with that of llama.cpp's own products.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "ggml_graph.h"
#include "graph/blocks.h"
#include "weights/blocks/draft_rounding.h"
#include "weights/blocks/grids.h"
#include "weights/blocks/kernels.h"

namespace {

using namespace specdec;

struct NamedType {
  ggml_type ggml;
  blocks::Type ours;
};
std::vector<NamedType> all_types() {
  std::vector<NamedType> types;
  for (const blocks::Type type : blocks::block_types.types) types.push_back({static_cast<ggml_type>(id(type)), type});
  return types;
}
const std::vector<NamedType> types = all_types();

constexpr std::int64_t k = 512, rows = 70;

class Graph : public GgmlGraph {
 public:
  explicit Graph(NamedType type) : GgmlGraph(64u << 20), type_(type) {}

  // Normal weights, quantized by ggml, or random blocks where that takes long: I-quants with grids.
  ggml_tensor* weights(std::int64_t num_rows = rows, std::int64_t matrices = 1) {
    ggml_tensor* t = ggml_new_tensor_3d(get(), type_.ggml, k, num_rows, matrices);
    std::vector<float> x(static_cast<std::size_t>(ggml_nelements(t)));
    for (float& value : x) value = normal_(random_);
    if (blocks::has_grid(type_.ours)) fill_with_blocks(t);
    else ggml_quantize_chunk(type_.ggml, x.data(), t->data, 0, num_rows * matrices, k, nullptr);
    return t;
  }

  // Normal, one in a hundred thirty times as large.
  ggml_tensor* activations(std::int64_t a, std::int64_t b, std::int64_t c = 1, std::int64_t d = 1) {
    ggml_tensor* t = ggml_new_tensor_4d(get(), GGML_TYPE_F32, a, b, c, d);
    float* x = static_cast<float*>(t->data);
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i)
      x[i] = normal_(random_) * (random_() % 100 == 0 ? 30.0f : 1.0f);
    return t;
  }

  NamedType type() const { return type_; }

 private:
  // Any codes and scales, with d near 1.
  void fill_with_blocks(ggml_tensor* t) {
    auto* bytes = static_cast<std::uint8_t*>(t->data);
    const std::size_t size = ggml_type_size(type_.ggml);
    for (std::size_t at = 0; at < ggml_nbytes(t); at += size) {
      for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::uint8_t>(random_());
      if (type_.ggml == GGML_TYPE_IQ1_M) {  // in the high halves of four bytes
        bytes[at + 55] = static_cast<std::uint8_t>((bytes[at + 55] & 15) | 0x30);
        bytes[at + 53] |= 0x80;
      } else {
        bytes[at + 1] = static_cast<std::uint8_t>(0x38 + random_() % 8);
      }
    }
  }

  NamedType type_;
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
};

template <class T>
const T* place(const ggml_tensor* t, std::int64_t i1, std::int64_t i2 = 0, std::int64_t i3 = 0) {
  const auto offset = [](std::int64_t i, std::size_t stride) { return static_cast<std::size_t>(i) * stride; };
  return reinterpret_cast<const T*>(static_cast<const char*>(t->data) + offset(i1, t->nb[1]) + offset(i2, t->nb[2]) +
                                    offset(i3, t->nb[3]));
}

// A row times a column by the scalar kernel.
float product(blocks::Type type, const std::uint8_t* row, std::int64_t columns, const float* x) {
  std::vector<blocks::PanelBlock> panel(blocks::panel_bytes(1, columns) / sizeof(blocks::PanelBlock));
  blocks::kernels_scalar.pack(type, x, 1, columns, 0, 0, columns / blocks::block_size, panel.data());
  float y = 0;
  blocks::kernels_scalar.matmul({type, row, 0, columns}, panel.data(), 1, 0, 1, &y, 1, nullptr);
  return y;
}

// Every number of MUL_MAT's result.
void check_product(const Graph& graph, const ggml_tensor* y) {
  const ggml_tensor *w = y->src[0], *x = y->src[1];
  for (std::int64_t i3 = 0; i3 < y->ne[3]; ++i3) {
    for (std::int64_t i2 = 0; i2 < y->ne[2]; ++i2) {
      for (std::int64_t i1 = 0; i1 < y->ne[1]; ++i1) {
        for (std::int64_t i0 = 0; i0 < y->ne[0]; ++i0) {
          const auto* row = place<std::uint8_t>(w, i0, i2 / (x->ne[2] / w->ne[2]), i3 / (x->ne[3] / w->ne[3]));
          CHECK(place<float>(y, i1, i2, i3)[i0] ==
                product(graph.type().ours, row, w->ne[0], place<float>(x, i1, i2, i3)));
        }
      }
    }
  }
}

// Compares a block's weights with ggml's, which rounds scale * code once more than the definition. Returns how many are
// finite.
int check_block(const NamedType type, const std::vector<std::uint8_t>& block) {
  const blocks::Format& format = blocks::format_of(type.ours);
  std::vector<float> expected(static_cast<std::size_t>(format.columns));
  ggml_get_type_traits(type.ggml)->to_float(block.data(), expected.data(), format.columns);
  int finite = 0;
  for (int part = 0; part < format.columns / 32; ++part) {
    const blocks::Weights32 w = blocks::decode(type.ours, block.data(), part);
    for (int i = 0; i < 32; ++i) {
      const double scaled = static_cast<double>(w.scale[i / format.group]) * w.code[i],
                   offset = static_cast<double>(w.offset[i / format.group]);
      const auto value = static_cast<double>(expected[static_cast<std::size_t>(32 * part + i)]);
      if (!std::isfinite(static_cast<float>(scaled + offset))) {
        CHECK(!std::isfinite(value));
        continue;
      }
      ++finite;
      CHECK_NEAR(value, scaled + offset, (std::fabs(scaled) + std::fabs(offset)) * 0x1p-23);
    }
  }
  return finite;
}

}  // namespace

TEST(every_quantized_type_that_llama_cpp_multiplies_is_ours) {
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    const auto ggml = static_cast<ggml_type>(type);
    const bool multiplies = ggml_is_quantized(ggml) && ggml_get_type_traits_cpu(ggml)->vec_dot != nullptr;
    CHECK(is_block_type(type) == multiplies);
  }
}

// Random bytes: every code and scale, F16 numbers of any size.
TEST(blocks_are_decoded_as_ggml_decodes_them) {
  start_backend();
  std::mt19937 random(3);
  for (const NamedType type : types) {
    const blocks::Format& format = blocks::format_of(type.ours);
    CHECK(is_block_type(type.ggml));
    CHECK(format.columns == ggml_blck_size(type.ggml) &&
          static_cast<std::size_t>(format.bytes) == ggml_type_size(type.ggml));
    std::vector<std::uint8_t> block(static_cast<std::size_t>(format.bytes));
    int finite = 0;
    for (int round = 0; round < 2000; ++round) {
      for (auto& byte : block) byte = static_cast<std::uint8_t>(round == 0 ? 0x00 : round == 1 ? 0x7B : random());
      finite += check_block(type, block);
    }
    CHECK(finite > 1000 * format.columns);
  }
}

TEST(every_value_of_every_byte_of_a_block) {
  start_backend();
  std::mt19937 random(4);
  for (const NamedType type : types) {
    std::vector<std::uint8_t> block(static_cast<std::size_t>(blocks::format_of(type.ours).bytes));
    int finite = 0;
    for (auto& byte : block) {
      for (auto& other : block) other = static_cast<std::uint8_t>(random());
      for (int value = 0; value < 256; ++value) {
        byte = static_cast<std::uint8_t>(value);
        finite += check_block(type, block);
      }
    }
    CHECK(finite > 0);
  }
}

TEST(matrix_times_columns_of_any_number) {
  for (const NamedType type : types) {
    for (const std::int64_t n : {1, 2, 7, 8, 9, 40, 70}) {
      for (const int threads : {1, 2, 3}) {
        Graph graph(type);
        ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(), graph.activations(k, n));
        graph.compute(y, threads);
        if (threads == 1 || n < 10) check_product(graph, y);
      }
    }
  }
}

// With a copy in tiles and nothing left in the tensor itself: products, experts, matrices of rows that fill no tile.
TEST(tiles_give_the_same_bits) {
  for (const NamedType type : types) {
    for (const std::int64_t n : {1, 3, 9, 40}) {
      Graph graph(type);
      ggml_tensor* w = graph.weights(rows, 3);
      ggml_tensor* matrix = ggml_view_2d(graph.get(), w, k, rows, w->nb[1], w->nb[2]);
      ggml_tensor* x = graph.activations(k, n, 3);
      ggml_tensor* ids = ggml_new_tensor_2d(graph.get(), GGML_TYPE_I32, 2, n);
      for (std::int64_t i = 0; i < ggml_nelements(ids); ++i)
        static_cast<std::int32_t*>(ids->data)[i] = static_cast<std::int32_t>(i * i % 3);
      ggml_tensor* few = graph.activations(k, 1, n);
      ggml_tensor* y = ggml_mul_mat(graph.get(), w, x);
      ggml_tensor* experts = ggml_mul_mat_id(graph.get(), w, few, ids);
      ggml_tensor* of_view = ggml_mul_mat(graph.get(), matrix, x);
      const auto numbers = [&](ggml_tensor* t) {
        graph.compute(t, 2);
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(t)));
        std::memcpy(values.data(), t->data, ggml_nbytes(t));
        return values;
      };
      const auto before = numbers(y), experts_before = numbers(experts), view_before = numbers(of_view);
      CHECK(can_have_tiles(w, w->type));
      CHECK(!can_have_tiles(matrix, w->type) && !can_have_tiles(x, x->type) && !can_have_tiles(x, GGML_TYPE_Q4_0));
      std::vector<std::uint8_t> tiles(tiles_bytes(w, w->type));
      write_tiles(w, w->type, 0, 4, tiles.data());
      write_tiles(w, w->type, 4, num_tiles(w), tiles.data() + 4 * bytes_of_tile(w, w->type));
      const BlockTiles copy{w->type, tiles.data()};
      use_tiles(w, &copy);
      CHECK(numbers(of_view) == view_before);
      std::memset(w->data, 0x55, ggml_nbytes(w));
      CHECK(numbers(y) == before);
      CHECK(numbers(experts) == experts_before);
      CHECK(numbers(of_view) != view_before);  // a view reads what it views
    }
  }
}

TEST(permuted_activations_share_one_matrix) {
  for (const NamedType type : types) {
    Graph graph(type);
    ggml_tensor* x = ggml_permute(graph.get(), graph.activations(k, 5, 3), 0, 2, 1, 3);
    ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(), x);
    graph.compute(y);
    check_product(graph, y);
  }
}

TEST(several_matrices_each_serve_their_part) {
  for (const NamedType type : types) {
    Graph graph(type);
    ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(rows, 2), graph.activations(k, 3, 4, 2));
    graph.compute(y);
    check_product(graph, y);
  }
}

TEST(views_of_some_rows_and_blocks) {
  for (const NamedType type : types) {
    Graph graph(type);
    ggml_tensor* w = graph.weights();
    ggml_tensor* view = ggml_view_2d(graph.get(), w, 256, 21, w->nb[1], 7 * w->nb[1] + w->nb[1] / 2);
    ggml_tensor* y = ggml_mul_mat(graph.get(), view, graph.activations(256, 4));
    graph.compute(y);
    check_product(graph, y);
  }
}

TEST(experts_are_chosen_per_token) {
  for (const NamedType type : types) {
    for (const std::int64_t shared : {1, 2}) {  // one activation per token, or one per expert used
      Graph graph(type);
      ggml_tensor *w = graph.weights(rows, 3), *x = graph.activations(k, shared, 5);
      ggml_tensor* y = ggml_mul_mat_id(graph.get(), w, x, graph.ids(chosen_experts, 2, 5));
      graph.compute(y);
      for_each_expert([&](std::int64_t token, std::int64_t used, std::int64_t expert) {
        for (std::int64_t r = 0; r < rows; ++r) {
          const float expected =
              product(type.ours, place<std::uint8_t>(w, r, expert), k, place<float>(x, used % shared, token));
          CHECK(place<float>(y, used, token)[r] == expected);
        }
      });
    }
  }
}

// Against float64 products of the same weights, with and without outliers among the activations.
// Also where all weights are zeros, where the extremes of a block are equal, and where scales are subnormal or too
// large for F16.
TEST(weights_are_rounded_as_ggml_rounds_them) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const NamedType type :
       {NamedType{GGML_TYPE_Q4_0, blocks::Type::q4_0}, NamedType{GGML_TYPE_Q1_0, blocks::Type::q1_0}}) {
    CHECK(blocks::can_round_to(type.ours));
    for (const float size : {1.0f, 1e-6f, 1e-40f, 1e6f}) {
      std::vector<float> x(static_cast<std::size_t>(5 * 7 * 128));
      for (float& value : x) value = normal(random) * size;
      for (std::size_t i = 0; i < 32; ++i) {
        x[i] = i % 2 == 0 ? 0.0f : -0.0f;
        x[32 + i] = i % 2 == 0 ? size : -size;
        x[64 + i] = i % 3 == 0 ? -size : size * 0.5f;
      }
      const std::size_t bytes = 5 * ggml_row_size(type.ggml, 7 * 128);
      std::vector<std::uint8_t> ours(bytes), theirs(bytes);
      blocks::round_rows(type.ours, x.data(), 5, 7 * 128, ours.data());
      ggml_quantize_chunk(type.ggml, x.data(), theirs.data(), 0, 5, 7 * 128, nullptr);
      CHECK(ours == theirs);
    }
  }
}

TEST(the_error_is_not_above_that_of_llama_cpp) {
  for (const NamedType type : types) {
    for (const bool outliers : {false, true}) {
      Graph graph(type);
      constexpr std::int64_t n = 40;
      ggml_tensor *w = graph.weights(), *x = graph.activations(k, n);
      if (!outliers) {
        float* values = static_cast<float*>(x->data);
        for (std::int64_t i = 0; i < k * n; ++i) values[i] = std::fmod(values[i], 3.0f);
      }
      ggml_tensor* y = ggml_mul_mat(graph.get(), w, x);
      graph.compute(y);
      const ggml_type_traits_cpu* stock = ggml_get_type_traits_cpu(type.ggml);
      double ours = 0, theirs = 0;
      std::vector<float> row(k);
      std::vector<char> rounded(ggml_row_size(stock->vec_dot_type, k));
      for (std::int64_t r = 0; r < rows; ++r) {
        ggml_get_type_traits(type.ggml)->to_float(place<char>(w, r), row.data(), k);
        for (std::int64_t c = 0; c < n; ++c) {
          const float* column = place<float>(x, c);
          double exact = 0;
          for (std::size_t i = 0; i < row.size(); ++i)
            exact += static_cast<double>(row[i]) * static_cast<double>(column[i]);
          ggml_get_type_traits_cpu(stock->vec_dot_type)->from_float(column, rounded.data(), k);
          float result = 0;
          stock->vec_dot(static_cast<int>(k), &result, 0, place<char>(w, r), 0, rounded.data(), 0, 1);
          theirs += std::pow(static_cast<double>(result) - exact, 2);
          ours += std::pow(static_cast<double>(place<float>(y, c)[r]) - exact, 2);
        }
      }
      CHECK(ours > 0);
      CHECK(ours <= theirs * 1.05);  // the sampling error of 2800 products
    }
  }
}

TEST_MAIN()
