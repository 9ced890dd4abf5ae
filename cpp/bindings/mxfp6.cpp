// specdec_native.mxfp6: the MXFP6 codec and kernels on numpy arrays.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "base/isa.h"
#include "base/parallel.h"
#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "weights/mxfp6/codec.h"
#include "weights/mxfp6/kernels.h"

namespace py = pybind11;

namespace {

using ArrayPair = py::typing::Tuple<py::array_t<std::uint8_t>, py::array_t<std::uint8_t>>;  // codes, scales

using namespace specdec;
using namespace specdec::mxfp6;

template <typename T>
using Contiguous = py::array_t<T, py::array::c_style>;

constexpr int max_threads = 1024;

std::string shape_text(const py::array& array) {
  std::string text = "(";
  for (py::ssize_t i = 0; i < array.ndim(); ++i) text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  return text + (array.ndim() == 1 ? ",)" : ")");
}

// No silent conversion: a float64 matrix or int64 codes are probably a mistake.
template <typename T>
Contiguous<T> checked(const py::array& array, const std::string& name, int dimensions) {
  if (!py::isinstance<py::array_t<T>>(array)) {
    throw std::invalid_argument(name + " has dtype " + py::str(array.dtype()).cast<std::string>() + ": must be " +
                                py::str(py::dtype::of<T>()).cast<std::string>());
  }
  if (array.ndim() != dimensions) {
    throw std::invalid_argument(name + " has shape " + shape_text(array) + ": must have " + std::to_string(dimensions) +
                                " dimensions");
  }
  return Contiguous<T>::ensure(array);
}

void check_shape(const py::array& array, const std::string& name, const std::vector<py::ssize_t>& shape,
                 const std::string& layout) {
  if (!std::equal(shape.begin(), shape.end(), array.shape(), array.shape() + array.ndim())) {
    throw std::invalid_argument(name + " has shape " + shape_text(array) + ": must be " + layout);
  }
}

// n must be a positive multiple of unit.
void check_multiple(py::ssize_t n, py::ssize_t unit, const std::string& name) {
  if (n > 0 && n % unit == 0) return;
  throw std::invalid_argument(name + " = " + std::to_string(n) + ": must be a positive multiple of " +
                              std::to_string(unit));
}

ScaleRule checked_rule(const std::string& name) {
  if (name == "mse") return ScaleRule::mse;
  if (name == "ocp") return ScaleRule::ocp;
  throw std::invalid_argument("scale = \"" + name + "\": must be \"mse\" or \"ocp\"");
}

void check_scales_shape(const py::array& codes, const py::array& scales) {
  check_multiple(codes.shape(1), block_size, "codes.shape[1]");
  check_shape(scales, "scales", {codes.shape(0), codes.shape(1) / block_size},
              "[rows, cols / 32] of codes " + shape_text(codes));
}

void check_codes(const Contiguous<std::uint8_t>& codes) {
  const std::uint8_t* end = codes.data() + codes.size();
  const std::uint8_t* bad = std::find_if(codes.data(), end, [](std::uint8_t code) { return code >= num_codes; });
  if (bad == end) return;
  throw std::invalid_argument("codes contain " + std::to_string(*bad) + ": must be 0..63");
}

void check_tiles_shape(const py::array& tiles, py::ssize_t rows, py::ssize_t cols) {
  check_multiple(rows, tile_rows, "rows");
  check_multiple(cols, tile_columns, "cols");
  check_shape(tiles, "tiles", {rows / tile_rows, cols / tile_columns, tile_bytes}, "[rows / 16, cols / 32, 400]");
}

ArrayPair quantize_array(const py::array& x_array, const std::string& scale) {
  const auto x = checked<float>(x_array, "x", 2);
  const ScaleRule rule = checked_rule(scale);
  const py::ssize_t rows = x.shape(0), cols = x.shape(1);
  check_multiple(cols, block_size, "x.shape[1]");
  Contiguous<std::uint8_t> codes({rows, cols}), scales({rows, cols / block_size});
  std::uint8_t *to_codes = codes.mutable_data(), *to_scales = scales.mutable_data();
  std::int64_t bad;
  {
    WithoutGil without_gil;
    bad = quantize(rule, x.data(), rows, cols, to_codes, to_scales);
  }
  if (bad >= 0) {
    throw std::invalid_argument("x[" + std::to_string(bad / cols) + ", " + std::to_string(bad % cols) +
                                "] = " + std::to_string(x.data()[bad]) + ": must be finite");
  }
  return py::make_tuple(codes, scales);
}

py::array_t<float> dequantize_arrays(const py::array& codes_array, const py::array& scales_array) {
  const auto codes = checked<std::uint8_t>(codes_array, "codes", 2);
  const auto scales = checked<std::uint8_t>(scales_array, "scales", 2);
  check_scales_shape(codes, scales);
  check_codes(codes);
  const py::ssize_t rows = codes.shape(0), cols = codes.shape(1);
  py::array_t<float> x({rows, cols});
  float* to = x.mutable_data();
  WithoutGil without_gil;
  dequantize(codes.data(), scales.data(), rows, cols, to);
  return x;
}

py::array_t<std::uint8_t> pack_arrays(const py::array& codes_array, const py::array& scales_array) {
  const auto codes = checked<std::uint8_t>(codes_array, "codes", 2);
  const auto scales = checked<std::uint8_t>(scales_array, "scales", 2);
  check_multiple(codes.shape(0), tile_rows, "codes.shape[0]");
  check_scales_shape(codes, scales);
  check_codes(codes);
  const py::ssize_t rows = codes.shape(0), cols = codes.shape(1);
  py::array_t<std::uint8_t> tiles({rows / tile_rows, cols / tile_columns, static_cast<py::ssize_t>(tile_bytes)});
  std::uint8_t* to = tiles.mutable_data();
  WithoutGil without_gil;
  pack(codes.data(), scales.data(), rows, cols, to);
  return tiles;
}

ArrayPair unpack_array(const py::array& tiles_array, py::ssize_t rows, py::ssize_t cols) {
  const auto tiles = checked<std::uint8_t>(tiles_array, "tiles", 3);
  check_tiles_shape(tiles, rows, cols);
  py::array_t<std::uint8_t> codes({rows, cols}), scales({rows, cols / block_size});
  std::uint8_t *to_codes = codes.mutable_data(), *to_scales = scales.mutable_data();
  {
    WithoutGil without_gil;
    unpack(tiles.data(), rows, cols, to_codes, to_scales);
  }
  return py::make_tuple(codes, scales);
}

const Kernels& checked_isa(const std::optional<std::string>& isa) {
  const IsaSelection selection = isa ? select_isa(*isa) : default_isa();
  if (isa && isa->empty()) throw std::invalid_argument("isa = \"\": must be None or one of isas()");
  if (selection.isa == nullptr) throw std::invalid_argument(selection.error);
  return pick(all_kernels(), *selection.isa);
}

struct Product {
  const std::uint8_t* tiles;
  const float* x;
  std::int64_t rows, cols, n;
  float* out;
};

void multiply(const Kernels& kernels, const Product& p, int threads) {
  const std::int64_t blocks = p.cols / block_size, bands = p.rows / tile_rows;
  std::vector<float> panel(panel_bytes(p.n, p.cols) / sizeof(float));
  std::vector<std::vector<std::uint8_t>> scratch(specdec::idx(threads),
                                                 std::vector<std::uint8_t>(scratch_bytes(p.n, p.cols)));
  for_each_piece(threads, threads, [&](std::int64_t t) {
    for (std::int64_t c = 0; c < p.n; ++c) {
      kernels.quantize(p.x + c * p.cols, p.n, p.cols, c, blocks * t / threads, blocks * (t + 1) / threads,
                       panel.data());
    }
  });
  for_each_piece(threads, threads, [&](std::int64_t t) {
    const std::int64_t begin = bands * t / threads, end = bands * (t + 1) / threads;
    kernels.matmul(p.tiles, p.cols, panel.data(), p.n, begin, end, p.out + begin * tile_rows, p.rows,
                   scratch[specdec::idx(t)].data());
  });
}

py::array_t<float> matmul_arrays(const py::array& tiles_array, const py::array& x_array, py::ssize_t rows,
                                 py::ssize_t cols, const std::optional<std::string>& isa, int threads) {
  const auto tiles = checked<std::uint8_t>(tiles_array, "tiles", 3);
  const auto x = checked<float>(x_array, "x", 2);
  check_tiles_shape(tiles, rows, cols);
  if (x.shape(1) != cols)
    throw std::invalid_argument("x has shape " + shape_text(x) + ": must be [n, cols], cols = " + std::to_string(cols));
  if (threads < 1 || threads > max_threads) {
    throw std::invalid_argument("threads = " + std::to_string(threads) + ": must be 1.." + std::to_string(max_threads));
  }
  const Kernels& kernels = checked_isa(isa);
  py::array_t<float> out({x.shape(0), rows});
  const Product product{tiles.data(), x.data(), rows, cols, x.shape(0), out.mutable_data()};
  if (product.n == 0) return out;
  const auto bands = static_cast<int>(std::min<py::ssize_t>(rows / tile_rows, max_threads));
  WithoutGil without_gil;
  multiply(kernels, product, std::min(threads, bands));
  return out;
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa* isa : supported_isas()) names.emplace_back(isa->name);
  return names;
}

constexpr const char* module_doc =
    R"(The 6-bit block-scaled weight format (OCP MXFP6) on numpy arrays: the engine's own codec and kernels.

32 weights of a row share one scale byte s, of value 2**(s - 127). The elements are E2M3: magnitudes up to 7.5, the
smallest step is 1/8. 16 rows x 32 columns are a tile of 400 bytes.
Arrays must have exactly the dtype named, nothing is converted; any strides are accepted. Bad values raise
ValueError.)";

constexpr const char* quantize_doc =
    R"(x float32 [rows, cols] -> (codes uint8 [rows, cols] of 0..63, scales uint8 [rows, cols / 32] of 1..253).

scale: "ocp" is floor(log2(max |x|)) - floor(log2(largest code)) per block; "mse" is, of that scale and its two
    neighbours, the one with the least squared error. A block of zeros has scale 127.
Rounding is to nearest even and saturates; minus zero keeps its sign.

ValueError: x not float32, not 2-D, cols not a multiple of 32, or a value that is not finite (the message has its
    index).)";

constexpr const char* dequantize_doc =
    R"(codes uint8 [rows, cols], scales uint8 [rows, cols / 32] -> float32 [rows, cols], exact.

Every scale byte is accepted: 0 is 2**-127, 255 gives NaN; values beyond the range of float32 are infinite.
ValueError: wrong dtype or shape, cols not a multiple of 32, a code above 63.)";

constexpr const char* pack_doc =
    R"(codes uint8 [rows, cols], scales uint8 [rows, cols / 32] -> tiles uint8 [rows / 16, cols / 32, 400].

ValueError: wrong dtype or shape, rows not a multiple of 16, cols not a multiple of 32, a code above 63.)";

constexpr const char* unpack_doc =
    R"(tiles uint8 [rows / 16, cols / 32, 400] -> (codes uint8 [rows, cols], scales uint8 [rows, cols / 32]).

ValueError: wrong dtype or shape, rows not a multiple of 16, cols not a multiple of 32.)";

constexpr const char* matmul_doc =
    R"(W @ x per row of x: tiles uint8 [rows / 16, cols / 32, 400], x float32 [n, cols] -> float32 [n, rows].

isa: one of isas(); None: the one that SPECDEC_ISA names, otherwise the best
threads: 1..1024, which split the rows of W
x is rounded to int8 in blocks of 32 with one float32 scale each.

The result has the same bits for every isa and number of threads, and a row of it depends on its row of x alone. NaN
or infinity in a row of x makes that row of the result NaN.
ValueError: wrong dtype or shape, unknown or unsupported isa, threads out of range.)";

}  // namespace

void register_mxfp6(py::module_& m) {
  m.doc() = module_doc;
  m.def("quantize", &quantize_array, quantize_doc, py::arg("x"), py::arg("scale") = "mse");
  m.def("dequantize", &dequantize_arrays, dequantize_doc, py::arg("codes"), py::arg("scales"));
  m.def("pack", &pack_arrays, pack_doc, py::arg("codes"), py::arg("scales"));
  m.def("unpack", &unpack_array, unpack_doc, py::arg("tiles"), py::arg("rows"), py::arg("cols"));
  m.def("matmul", &matmul_arrays, matmul_doc, py::arg("tiles"), py::arg("x"), py::arg("rows"), py::arg("cols"),
        py::arg("isa") = py::none(), py::arg("threads") = 1);
  m.def("isas", &isa_names, "Names of the instruction sets this CPU supports, best first; the last is \"scalar\".");
}
