#include "gguf/gguf_writer.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "base/error.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t gguf_version = 3;

[[noreturn]] void fail(const std::string& path, const std::string& problem) { throw Error(path + ": " + problem); }

std::uint64_t aligned(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Little-endian, like every machine on which llama.cpp maps such files.
template <typename T>
void append(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

void append_string(std::string& out, const std::string& text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

void append_array(std::string& out, const GgufArray& array) {
  append(out, static_cast<std::uint32_t>(array.type));
  append(out, array.count);
  out += array.bytes;
}

void append_value(std::string& out, GgufType type, const GgufValue& value) {
  const auto natural = [&] { return std::get<std::uint64_t>(value); };
  const auto whole = [&] { return std::get<std::int64_t>(value); };
  switch (type) {
    case GgufType::u8:
      return append(out, static_cast<std::uint8_t>(natural()));
    case GgufType::u16:
      return append(out, static_cast<std::uint16_t>(natural()));
    case GgufType::u32:
      return append(out, static_cast<std::uint32_t>(natural()));
    case GgufType::u64:
      return append(out, natural());
    case GgufType::i8:
      return append(out, static_cast<std::int8_t>(whole()));
    case GgufType::i16:
      return append(out, static_cast<std::int16_t>(whole()));
    case GgufType::i32:
      return append(out, static_cast<std::int32_t>(whole()));
    case GgufType::i64:
      return append(out, whole());
    case GgufType::f32:
      return append(out, static_cast<float>(std::get<double>(value)));
    case GgufType::f64:
      return append(out, std::get<double>(value));
    case GgufType::boolean:
      return append(out, static_cast<std::uint8_t>(std::get<bool>(value)));
    case GgufType::string:
      return append_string(out, std::get<std::string>(value));
    case GgufType::array:
      return append_array(out, std::get<GgufArray>(value));
  }
}

void append_entry(std::string& out, const GgufEntry& entry) {
  append_string(out, entry.key);
  append(out, static_cast<std::uint32_t>(entry.type));
  append_value(out, entry.type, entry.value);
}

void append_tensor(std::string& out, const GgufTensor& tensor) {
  append_string(out, tensor.name);
  append(out, static_cast<std::uint32_t>(tensor.shape.size()));
  for (const std::uint64_t size : tensor.shape) append(out, size);
  append(out, static_cast<std::int32_t>(tensor.type));
  append(out, tensor.offset);
}

void check_room(const std::string& path, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(fs::absolute(path).parent_path(), error);
  if (error) fail(path, "its folder cannot be used: " + error.message());
  if (space.available < bytes) {
    fail(path,
         "the disk has " + std::to_string(space.available) + " bytes free, the result needs " + std::to_string(bytes));
  }
}

}  // namespace

std::string gguf_header(const std::vector<GgufEntry>& metadata, std::vector<GgufTensor>& tensors,
                        std::uint64_t alignment) {
  std::string header = "GGUF";
  append(header, gguf_version);
  append(header, std::uint64_t{tensors.size()});
  append(header, std::uint64_t{metadata.size()});
  for (const GgufEntry& entry : metadata) append_entry(header, entry);
  std::uint64_t end = 0;
  for (GgufTensor& tensor : tensors) {
    tensor.offset = end;
    append_tensor(header, tensor);
    end = aligned(end + tensor.bytes, alignment);
  }
  header.resize(aligned(header.size(), alignment), '\0');
  for (GgufTensor& tensor : tensors) tensor.offset += header.size();
  return header;
}

GgufWriter::GgufWriter(const std::string& path, bool overwrite, const std::vector<GgufEntry>& metadata,
                       std::vector<GgufTensor> tensors, std::uint64_t alignment)
    : output_(path, overwrite, "use --force to replace it"), tensors_(std::move(tensors)) {
  const std::string header = gguf_header(metadata, tensors_, alignment);
  file_size_ = tensors_.empty() ? header.size() : aligned(tensors_.back().offset + tensors_.back().bytes, alignment);
  check_room(output_.path(), file_size_);
  output_.file().resize(file_size_);
  write(0, header.data(), header.size());
}

void GgufWriter::write(std::uint64_t offset, const void* data, std::size_t bytes) {
  output_.file().write(offset, data, bytes);
}

void GgufWriter::sync() { output_.file().sync(); }

void GgufWriter::publish() { output_.publish(); }

}  // namespace specdec
