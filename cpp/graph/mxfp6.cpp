#include "graph/mxfp6.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/index.h"
#include "base/isa.h"
#include "graph/best_rows.h"
#include "graph/op_failure.h"
#include "weights/mxfp6/codec.h"
#include "weights/mxfp6/kernels.h"
#include "weights/mxfp6/matmul.h"

namespace specdec {
namespace {

const mxfp6::Kernels& kernels() {
  static const mxfp6::Kernels& chosen = pick(mxfp6::all_kernels());
  return chosen;
}

// The weights of an operation: matrices [rows, k] in tiles, one after another.
struct Mxfp6Format {
  explicit Mxfp6Format(const ggml_tensor* t) : k(t->ne[0]), rows(t->ne[1]), tensor(t) {}

  // Rows of a tiled matrix are not contiguous: only whole tensors and views of whole bands are valid.
  bool valid() const {
    const std::size_t row_bytes = ggml_row_size(tensor->type, k);
    return k % mxfp6::block_size == 0 && rows % mxfp6::tile_rows == 0 && tensor->nb[1] == row_bytes &&
           tensor->view_offs % (row_bytes * mxfp6::tile_rows) == 0;
  }
  const char* rejection(const ggml_tensor* x) const { return valid() && valid_activations(x) ? nullptr : unsupported; }
  const std::uint8_t* matrix(std::int64_t i2, std::int64_t i3 = 0) const {
    return static_cast<const std::uint8_t*>(tensor->data) + idx(i2) * tensor->nb[2] + idx(i3) * tensor->nb[3];
  }
  std::int64_t blocks() const { return k / mxfp6::block_size; }
  std::int64_t expert_rows() const { return mxfp6::scratch_bands * mxfp6::tile_rows; }
  std::int64_t chunk_rows(int) const { return 2 * expert_rows(); }
  std::size_t panel_bytes(std::int64_t n) const { return mxfp6::panel_bytes(n, k); }
  std::size_t scratch_bytes(std::int64_t n) const { return mxfp6::scratch_bytes(n, k); }

  void pack(const float* x, std::int64_t n, std::int64_t column, std::int64_t block_begin, std::int64_t block_end,
            void* panel) const {
    kernels().quantize(x, n, k, column, block_begin, block_end, panel);
  }
  void multiply(const std::uint8_t* first_row, const void* panel, std::int64_t n, std::int64_t row_begin,
                std::int64_t row_end, float* out, std::int64_t ldo, void* scratch) const {
    kernels().matmul(first_row, k, panel, n, row_begin / mxfp6::tile_rows, row_end / mxfp6::tile_rows, out, ldo,
                     scratch);
  }

  static constexpr const char* unsupported =
      "this use of an MXFP6 tensor is not supported (rows viewed within a band of 16, or transposed activations). Use "
      "the model in "
      "F16 or Q8_0, or quantize it without this tensor (--keep)";

  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

// dst [k, n, ...] = rows ids[n, ...] of W, decoded to F32.
class GetRows final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int, const ggml_tensor*, size_t& size) override {
    size = 0;
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Mxfp6Format w(op->src[0]);
    if (!w.valid()) {
      if (params->ith == 0) fail_operation(op, w.tensor, Mxfp6Format::unsupported);
      return true;
    }
    const ggml_tensor* ids = op->src[1];
    for (std::int64_t i = params->ith; i < ggml_nelements(ids); i += params->nth) {
      const std::int64_t i0 = i % ids->ne[0], i1 = i / ids->ne[0] % ids->ne[1], i2 = i / (ids->ne[0] * ids->ne[1]);
      const char* at =
          static_cast<const char*>(ids->data) + idx(i0) * ids->nb[0] + idx(i1) * ids->nb[1] + idx(i2) * ids->nb[2];
      mxfp6::dequantize_row(w.matrix(i1, i2), w.k, *reinterpret_cast<const std::int32_t*>(at), row_of(op, i0, i1, i2));
    }
    return true;
  }
};

}  // namespace

bool is_mxfp6(const ggml_tensor* t) { return t->type == GGML_TYPE_MXFP6_E2M3; }

void decode_mxfp6_rows(const ggml_tensor* weights, std::int64_t matrix, std::int64_t first, std::int64_t count,
                       float* values) {
  const Mxfp6Format w(weights);
  for (std::int64_t i = 0; i < count; ++i) mxfp6::dequantize_row(w.matrix(matrix), w.k, first + i, values + i * w.k);
}

ggml::cpu::tensor_traits* mxfp6_traits(const ggml_tensor* op) {
  static GetRows get_rows;
  if (op->src[0] == nullptr || !is_mxfp6(op->src[0])) return nullptr;
  if (is_product(op)) return product_traits<Mxfp6Format>(op);
  return op->op == GGML_OP_GET_ROWS ? &get_rows : nullptr;
}

std::size_t q8_0_row_bytes(std::int64_t columns) { return ggml_row_size(GGML_TYPE_Q8_0, columns); }

void mxfp6_band_to_q8_0(const void* tiles, std::int64_t columns, void* rows) {
  const auto* const band = static_cast<const std::uint8_t*>(tiles);
  const std::size_t num_blocks = idx(columns) / mxfp6::block_size, block_bytes = ggml_type_size(GGML_TYPE_Q8_0);
  std::vector<float> row(idx(columns));
  auto* to = static_cast<std::uint8_t*>(rows);
  for (std::int64_t r = 0; r < mxfp6::tile_rows; ++r) {
    mxfp6::dequantize_row(band, columns, r, row.data());
    for (std::size_t block = 0; block < num_blocks; ++block, to += block_bytes) {
      const std::uint8_t scale =
          band[block * mxfp6::tile_bytes + mxfp6::tile_code_bytes + idx(r)];  // of these 32 weights
      const int exponent = std::clamp(scale - mxfp6::scale_bias - mxfp6::mantissa_bits, -24, 15);
      const float step = std::ldexp(1.0f, exponent);
      const std::uint16_t half = float_to_half(step);
      std::memcpy(to, &half, sizeof half);
      for (std::size_t i = 0; i < mxfp6::block_size; ++i) {
        const float code = row[block * mxfp6::block_size + i] / step;
        to[sizeof half + i] =
            static_cast<std::uint8_t>(static_cast<std::int8_t>(std::lround(std::clamp(code, -127.0f, 127.0f))));
      }
    }
  }
}

}  // namespace specdec
