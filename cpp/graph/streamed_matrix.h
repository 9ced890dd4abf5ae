// A matrix that lies in parts: some in memory, some read by a WeightStream while passes run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "streaming/weight_stream.h"

namespace specdec {

struct StreamedMatrix {
  struct Part {
    const std::uint8_t* data;  // its first row; null: it is streamed
    int streamed = -1;         // the stream's part
  };

  WeightStream* stream = nullptr;  // null: all parts are in memory
  int matrix = -1;                 // of the stream; -1: none of its parts is streamed
  std::int64_t rows_of_part;       // a multiple of 16; the last part may have fewer
  std::vector<Part> parts;

  // Before any part is used in an operation.
  void begin() const noexcept {
    if (matrix >= 0) stream->begin(matrix);
  }

  // Calls multiply(first row's data, first row, end) for the parts of rows [begin, end), with row numbers within the
  // part. Returns false if a part cannot be read.
  template <class Multiply>
  bool each_part(std::int64_t begin, std::int64_t end, const Multiply& multiply) const {
    while (begin < end) {
      const std::int64_t index = begin / rows_of_part, start = index * rows_of_part;
      const std::int64_t last = std::min(end, start + rows_of_part);
      const Part& part = parts[idx(index)];
      if (part.data != nullptr) {
        multiply(part.data, begin - start, last - start);
      } else {
        const std::uint8_t* const data = stream->take(part.streamed);
        if (data == nullptr) return false;
        multiply(data, begin - start, last - start);
        stream->give_back(part.streamed, static_cast<int>(last - begin));
      }
      begin = last;
    }
    return true;
  }
};

}  // namespace specdec
