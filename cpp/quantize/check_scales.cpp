#include "quantize/check_scales.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/weight_types.h"
#include "weights/mxfp6/codec.h"

namespace specdec {
namespace {

using std::to_string;

constexpr std::uint64_t tiles_at_once = 4096;  // 1.6 MB

// The position of a tile's row in the tensor: tiles are ordered by expert, band, then column.
std::string place(const GgufTensor& tensor, std::uint64_t tile, int row_in_tile) {
  const std::uint64_t tiles_per_band = tensor.shape[0] / mxfp6::tile_columns;
  const std::uint64_t row = tile / tiles_per_band * mxfp6::tile_rows + static_cast<std::uint64_t>(row_in_tile);
  const std::uint64_t first_column = tile % tiles_per_band * mxfp6::tile_columns;
  std::string text = "row " + to_string(row % tensor.shape[1]) + ", columns " + to_string(first_column) + " to " +
                     to_string(first_column + mxfp6::tile_columns - 1);
  return tensor.shape.size() > 2 ? text + " of matrix " + to_string(row / tensor.shape[1]) : text;
}

[[noreturn]] void fail(const GgufFile& file, const GgufTensor& tensor, const std::string& problem) {
  throw ModelError(file.path + ": tensor \"" + tensor.name + "\" " + problem);
}

[[noreturn]] void fail_scale(const GgufFile& file, const GgufTensor& tensor, std::uint64_t tile,
                             const std::uint8_t* bytes) {
  const std::uint8_t* scales = bytes + mxfp6::tile_code_bytes;
  int row = 0;
  while (scales[row] >= mxfp6::min_scale && scales[row] <= mxfp6::max_scale) ++row;
  fail(file, tensor,
       "has the scale " + to_string(scales[row]) + " at " + place(tensor, tile, row) +
           ", valid are 1 to 253; the file is damaged, quantize the model again");
}

void check_tensor(std::ifstream& stream, const GgufFile& file, const GgufTensor& tensor,
                  std::vector<std::uint8_t>& buffer) {
  const std::uint64_t num_tiles = tensor.bytes / mxfp6::tile_bytes;
  stream.seekg(static_cast<std::streamoff>(tensor.offset));
  for (std::uint64_t first = 0; first < num_tiles; first += tiles_at_once) {
    const std::uint64_t count = std::min(tiles_at_once, num_tiles - first);
    stream.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(count * mxfp6::tile_bytes));
    if (!stream) fail(file, tensor, "cannot be read");
    const std::int64_t bad = mxfp6::find_invalid_scale(buffer.data(), static_cast<std::int64_t>(count));
    if (bad >= 0)
      fail_scale(file, tensor, first + static_cast<std::uint64_t>(bad), &buffer[idx(bad) * mxfp6::tile_bytes]);
  }
}

}  // namespace

std::size_t check_scales(const std::vector<GgufFile>& parts) {
  std::vector<std::uint8_t> buffer(tiles_at_once * mxfp6::tile_bytes);
  std::size_t checked = 0;
  for (const GgufFile& file : parts) {
    std::ifstream stream(file.path, std::ios::binary);
    for (const GgufTensor& tensor : file.tensors) {
      if (!is_mxfp6(tensor.type)) continue;
      check_tensor(stream, file, tensor, buffer);
      ++checked;
    }
  }
  return checked;
}

}  // namespace specdec
