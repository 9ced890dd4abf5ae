#include "llama/q8_0_copy.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/index.h"
#include "gguf/gguf_writer.h"
#include "graph/mxfp6.h"
#include "platform/file.h"

namespace specdec {
namespace {

// Whether the tensor is MXFP6 and must be converted.
bool is_converted(const GgufTensor& tensor, const OffloadedTensors& offloaded) {
  return is_mxfp6(tensor.type) && offloaded.contain(tensor.name);
}

constexpr std::uint64_t chunk = 1 << 22;  // bytes

void copy(const File& from, std::uint64_t from_offset, GgufWriter& to, std::uint64_t to_offset, std::uint64_t bytes) {
  std::string buffer;
  for (std::uint64_t done = 0; done < bytes; done += buffer.size()) {
    buffer.resize(std::min(chunk, bytes - done));
    from.read(from_offset + done, buffer.data(), buffer.size());
    to.write(to_offset + done, buffer.data(), buffer.size());
  }
}

// Bands of 16 rows lie one after another, also across experts.
void convert(const File& from, const GgufTensor& tensor, GgufWriter& to, std::uint64_t to_offset) {
  const std::uint64_t columns = tensor.shape[0], bands = tensor.elements() / columns / mxfp6_rows_multiple;
  const std::uint64_t band_bytes = tensor.bytes / bands;
  std::string band(band_bytes, '\0'),
      rows(mxfp6_rows_multiple * q8_0_row_bytes(static_cast<std::int64_t>(columns)), '\0');
  for (std::uint64_t i = 0; i < bands; ++i) {
    from.read(tensor.offset + i * band_bytes, band.data(), band.size());
    mxfp6_band_to_q8_0(band.data(), static_cast<std::int64_t>(columns), rows.data());
    to.write(to_offset + i * rows.size(), rows.data(), rows.size());
  }
}

}  // namespace

bool Q8Copy::is_needed(const std::vector<GgufFile>& parts, const Offload& offload) {
  const OffloadedTensors offloaded(parts, offload);
  return std::any_of(parts.begin(), parts.end(), [&](const GgufFile& part) {
    return std::any_of(part.tensors.begin(), part.tensors.end(),
                       [&](const GgufTensor& tensor) { return is_converted(tensor, offloaded); });
  });
}

std::string Q8Copy::path() const { return (folder_.path() / "q8_0.gguf").string(); }

Q8Copy::Q8Copy(const std::vector<GgufFile>& parts, const Offload& offload, const LoadProgressCallback& progress) {
  const OffloadedTensors offloaded(parts, offload);
  std::vector<GgufEntry> metadata;
  for (const GgufEntry& entry : parts.front().metadata) {
    if (entry.key.rfind("split.", 0) != 0) metadata.push_back(entry);
  }
  std::vector<GgufTensor> tensors;
  for (const GgufFile& part : parts) {
    for (GgufTensor tensor : part.tensors) {
      if (is_converted(tensor, offloaded)) {
        const auto columns = static_cast<std::int64_t>(tensor.shape[0]);
        tensor.bytes = tensor.elements() / tensor.shape[0] * q8_0_row_bytes(columns);
        tensor.type = type_id::q8_0;
      }
      tensors.push_back(std::move(tensor));
    }
  }
  GgufWriter writer(path(), false, metadata, std::move(tensors), parts.front().alignment);
  std::size_t place = 0;
  std::uint64_t written = 0;
  for (const GgufFile& part : parts) {
    const File file = File::open(part.path);
    for (const GgufTensor& tensor : part.tensors) {
      const GgufTensor& as = writer.tensors()[place++];
      if (as.type != tensor.type) convert(file, tensor, writer, as.offset);
      else copy(file, tensor.offset, writer, as.offset, tensor.bytes);
      written += as.bytes;
      const double share = static_cast<double>(written) / static_cast<double>(writer.file_size());
      if (progress && !progress({"converting MXFP6 for the device", share}))
        throw Cancelled("the model was not loaded to its end");
    }
  }
  writer.publish();
}

}  // namespace specdec
