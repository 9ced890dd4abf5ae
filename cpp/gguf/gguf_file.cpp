#include "gguf/gguf_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"
#include "gguf/model_checks.h"
#include "gguf/problem.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using std::to_string;

constexpr std::uint64_t max_header_bytes = 256 << 20;  // the largest tokenizers take a few dozen MB
constexpr std::uint64_t max_key_bytes = 65535;         // the format's limit; names of tensors are even shorter
constexpr std::uint64_t max_entries = 1 << 16;         // of metadata; models have dozens
constexpr std::uint64_t max_tensors = 1 << 20;         // of one file; the largest mixtures have about 100,000
constexpr std::uint32_t max_dimensions = 4;            // ggml's
constexpr int max_array_depth = 4;
constexpr std::uint64_t default_alignment = 32;

// Minimum bytes of one element of a list: bounds a count before anything is read or allocated.
constexpr std::uint64_t min_entry_bytes = 8 + 4 + 1;           // empty key, type, u8
constexpr std::uint64_t min_tensor_bytes = 8 + 4 + 8 + 4 + 8;  // empty name, n_dims, one dimension, type, offset

// a *= b and a += b; false if the result overflows.
bool multiply(std::uint64_t& a, std::uint64_t b) {
  if (b != 0 && a > UINT64_MAX / b) return false;
  a *= b;
  return true;
}
bool add(std::uint64_t& a, std::uint64_t b) {
  if (a > UINT64_MAX - b) return false;
  a += b;
  return true;
}

// The format is little-endian, as are all machines on which llama.cpp maps such files.
template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool is_known(std::uint32_t type) { return type <= static_cast<std::uint32_t>(GgufType::f64); }

// Bytes of a value; 0 if they vary.
std::uint64_t fixed_size(GgufType type) {
  constexpr std::uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // in the order of GgufType
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(sizes) ? sizes[index] : 0;
}

// Minimum bytes of a value as an element of an array.
std::uint64_t min_size(GgufType type) {
  if (type == GgufType::string) return 8;
  if (type == GgufType::array) return 4 + 8;
  return fixed_size(type);
}

GgufValue decode_fixed(GgufType type, const char* from) {
  switch (type) {
    case GgufType::u8:
      return std::uint64_t{load<std::uint8_t>(from)};
    case GgufType::i8:
      return std::int64_t{load<std::int8_t>(from)};
    case GgufType::u16:
      return std::uint64_t{load<std::uint16_t>(from)};
    case GgufType::i16:
      return std::int64_t{load<std::int16_t>(from)};
    case GgufType::u32:
      return std::uint64_t{load<std::uint32_t>(from)};
    case GgufType::i32:
      return std::int64_t{load<std::int32_t>(from)};
    case GgufType::f32:
      return double{load<float>(from)};
    case GgufType::boolean:
      return load<std::uint8_t>(from) != 0;
    case GgufType::u64:
      return load<std::uint64_t>(from);
    case GgufType::i64:
      return load<std::int64_t>(from);
    case GgufType::f64:
      return load<double>(from);
    case GgufType::string:
    case GgufType::array:
      break;
  }
  return {};
}

// Bytes of the element at `at`; the array was checked when it was read.
std::uint64_t stored_size(GgufType type, const char* at) {
  if (type == GgufType::string) return 8 + load<std::uint64_t>(at);
  if (type != GgufType::array) return fixed_size(type);
  const auto inner = static_cast<GgufType>(load<std::uint32_t>(at));
  const auto count = load<std::uint64_t>(at + 4);
  std::uint64_t size = 4 + 8;
  if (fixed_size(inner) > 0) return size + count * fixed_size(inner);
  for (std::uint64_t i = 0; i < count; ++i) size += stored_size(inner, at + size);
  return size;
}

GgufValue decode(GgufType type, const char* at) {
  if (type == GgufType::string) return std::string(at + 8, load<std::uint64_t>(at));
  if (type != GgufType::array) return decode_fixed(type, at);
  return GgufArray{static_cast<GgufType>(load<std::uint32_t>(at)), load<std::uint64_t>(at + 4),
                   std::string(at + 12, stored_size(type, at) - 12)};
}

// Reads a file sequentially, with checks against its end. `what` names the item being read, for messages.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), size_(regular_file_size(path)) {
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_)
      fail_file(path, "cannot be opened (" + std::generic_category().message(errno) + ")", "check its permissions");
  }

  std::uint64_t size() const { return size_; }
  std::uint64_t position() const { return position_; }

  // Reports a damaged file.
  [[noreturn]] void damaged(const std::string& problem) const { fail_file(path_, problem, get_again); }

  // `expected`: what ends or needs bytes beyond the file's end.
  [[noreturn]] void truncated(const std::string& expected) const {
    damaged("truncated: " + expected + ", but the file has " + to_string(size_) + " bytes");
  }

  // Throws unless `count` elements of at least `bytes_each` bytes can follow.
  void check_room(std::uint64_t count, std::uint64_t bytes_each, const std::string& what) const {
    if (count > (size_ - position_) / bytes_each) {
      const std::string size = bytes_each > 1 ? " elements of at least " + to_string(bytes_each) : "";
      truncated(what + " needs " + to_string(count) + size + " bytes at byte " + to_string(position_));
    }
  }

  void read(char* to, std::uint64_t bytes, const std::string& what) {
    check_room(bytes, 1, what);
    if (position_ + bytes > max_header_bytes)
      damaged("the header has more than " + to_string(max_header_bytes) + " bytes");
    if (std::fread(to, 1, bytes, file_.get()) != bytes) {
      fail_file(path_, what + " cannot be read (" + std::generic_category().message(errno) + ")", "check the disk");
    }
    position_ += bytes;
  }
  std::string bytes(std::uint64_t count, const std::string& what) {
    check_room(count, 1, what);
    if (count > max_header_bytes) damaged(what + " has " + to_string(count) + " bytes");
    std::string result(count, '\0');
    read(result.data(), count, what);
    return result;
  }
  template <typename T>
  T value(const std::string& what) {
    char buffer[sizeof(T)];
    read(buffer, sizeof buffer, what);
    return load<T>(buffer);
  }
  std::string string(const std::string& what) { return bytes(value<std::uint64_t>(what), what); }

 private:
  static std::uint64_t regular_file_size(const std::string& path) {
    if (path.find('\0') != std::string::npos)
      fail_file(printable(path), "is not a path: it has a NUL character", "check the path");
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) fail_file(path, "no such file", "check the path");
    if (error) fail_file(path, "cannot be read (" + error.message() + ")", "check the path and its permissions");
    if (fs::is_directory(status)) fail_file(path, "is a directory", "name a .gguf file in it");
    if (!fs::is_regular_file(status)) fail_file(path, "is not a regular file", "name a .gguf file");
    const std::uint64_t size = fs::file_size(path, error);
    if (error) fail_file(path, "cannot be read (" + error.message() + ")", "check its permissions");
    if (size == 0) fail_file(path, "is empty", "download or copy it again");
    return size;
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
};

// Other formats that users give by mistake, by their first bytes.
struct OtherFormat {
  std::string_view start;
  const char* what;
  const char* remedy;
};
constexpr OtherFormat other_formats[] = {
    {"FUGG", "is a byte-swapped GGUF file (big-endian)", "get or convert a little-endian one"},
    {"version https://git-lfs", "is a Git LFS pointer, not the model itself", "run `git lfs pull`"},
    {"<", "looks like a web page, not a model", "the download failed: try its link in a browser"},
    {"{", "looks like JSON, not a model", "name a .gguf file"},
    {"PK\x03\x04", "is a PyTorch or zip archive", "convert the model with llama.cpp's convert_hf_to_gguf.py"},
    {"tjgg", "is in the old GGJT format", "get a GGUF version of the model"},
    {"lmgg", "is in the old GGML format", "get a GGUF version of the model"},
    {"fmgg", "is in the old GGMF format", "get a GGUF version of the model"},
};

// Reports a file that does not start like a GGUF file, with its actual format if known.
[[noreturn]] void fail_not_gguf(Reader& reader, const std::string& path, const std::string& magic) {
  const std::uint64_t more = std::min<std::uint64_t>(reader.size() - reader.position(), 64);
  const std::string start = magic + reader.bytes(more, "the start of the file");
  for (const OtherFormat& format : other_formats) {
    if (start.compare(0, format.start.size(), format.start) == 0) fail_file(path, format.what, format.remedy);
  }
  if (start.size() > 8 && start[8] == '{') {  // u64 length, JSON
    fail_file(path, "is a safetensors file, not GGUF", "convert the model with llama.cpp's convert_hf_to_gguf.py");
  }
  fail_file(path, "is not a GGUF file (it does not start with \"GGUF\")", "name a .gguf file");
}

std::uint32_t read_version(Reader& reader, const std::string& path) {
  const std::string magic = reader.bytes(std::min<std::uint64_t>(reader.size(), 4), "the magic");
  if (magic != "GGUF") fail_not_gguf(reader, path, magic);
  const auto version = reader.value<std::uint32_t>("the version");
  if (version != 0 && (version & 0xffff) == 0) {
    fail_file(path, "is a byte-swapped GGUF file (big-endian)", "get or convert a little-endian one");
  }
  if (version == 1) fail_file(path, "is GGUF version 1, which llama.cpp no longer reads", convert_again);
  if (version == 0 || version > 3) {
    fail_file(path, "has GGUF version " + to_string(version) + ", this program reads 2 and 3",
              "get version 3 or a newer program");
  }
  return version;
}

GgufType read_type(Reader& reader, const std::string& what) {
  const auto type = reader.value<std::uint32_t>(what);
  if (!is_known(type)) reader.damaged(what + " has unknown value type " + to_string(type));
  return static_cast<GgufType>(type);
}

// Appends an array's elements to `bytes` as they are stored.
void read_elements(Reader& reader, GgufType type, std::uint64_t count, int depth, const std::string& what,
                   std::string& bytes) {
  reader.check_room(count, min_size(type), what);
  if (fixed_size(type) > 0) {
    bytes += reader.bytes(count * fixed_size(type), what);
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::string) {
      bytes += reader.bytes(8, what);
      bytes += reader.bytes(load<std::uint64_t>(bytes.data() + bytes.size() - 8), what);
      continue;
    }
    if (depth == max_array_depth)
      reader.damaged(what + " is nested more than " + to_string(max_array_depth) + " levels deep");
    bytes += reader.bytes(4 + 8, what);
    const auto inner = load<std::uint32_t>(bytes.data() + bytes.size() - 12);
    const auto inner_count = load<std::uint64_t>(bytes.data() + bytes.size() - 8);
    if (!is_known(inner)) reader.damaged(what + " has unknown value type " + to_string(inner));
    read_elements(reader, static_cast<GgufType>(inner), inner_count, depth + 1, what, bytes);
  }
}

GgufArray read_array(Reader& reader, const std::string& what) {
  GgufArray array;
  array.type = read_type(reader, what);
  array.count = reader.value<std::uint64_t>(what);
  read_elements(reader, array.type, array.count, 1, what, array.bytes);
  return array;
}

GgufValue read_value(Reader& reader, GgufType type, const std::string& what) {
  if (type == GgufType::string) return reader.string(what);
  if (type == GgufType::array) return read_array(reader, what);
  char buffer[8];
  reader.read(buffer, fixed_size(type), what);
  return decode_fixed(type, buffer);
}

// Reads a key or a name.
std::string read_name(Reader& reader, const std::string& what) {
  const auto length = reader.value<std::uint64_t>(what);
  if (length == 0 || length > max_key_bytes) {
    reader.damaged("the length of " + what + " is " + to_string(length) + ", expected 1 to " +
                   to_string(max_key_bytes));
  }
  return reader.bytes(length, what);
}

GgufEntry read_entry(Reader& reader, std::uint64_t index) {
  GgufEntry entry;
  entry.key = read_name(reader, "metadata key " + to_string(index));
  const std::string what = "metadata " + shown(entry.key);
  entry.type = read_type(reader, what);
  entry.value = read_value(reader, entry.type, what);
  return entry;
}

std::vector<std::uint64_t> read_shape(Reader& reader, const std::string& what) {
  const auto num_dimensions = reader.value<std::uint32_t>(what);
  if (num_dimensions == 0 || num_dimensions > max_dimensions) {
    reader.damaged(what + " has " + to_string(num_dimensions) + " dimensions, expected 1 to 4");
  }
  std::vector<std::uint64_t> shape(num_dimensions);
  std::uint64_t elements = 1;
  for (std::uint64_t& size : shape) {
    size = reader.value<std::uint64_t>(what);
    if (size == 0) reader.damaged(what + " has a dimension of size 0");
    if (!multiply(elements, size) || elements > INT64_MAX) reader.damaged("the size of " + what + " overflows");
  }
  return shape;
}

// Bytes of a tensor; checks its shape against its type.
std::uint64_t tensor_bytes(const Reader& reader, const std::string& path, const GgufTensor& tensor,
                           const std::string& what) {
  const WeightType* type = find_weight_type(tensor.type);
  if (type == nullptr) {
    fail_file(path, what + " has unknown type " + to_string(tensor.type),
              "the file is damaged or needs a newer program");
  }
  if (type->id == type_id::mxfp6_e3m2) {
    fail_file(path, what + " has type MXFP6_E3M2, which only earlier versions read",
              "quantize the model again, from a file in F16 or Q8_0, with E2M3 (`specdec quantize`)");
  }
  if (type->columns == 0)
    fail_file(path, what + " has type " + type->name + ", which llama.cpp dropped", quantize_again);
  const std::uint64_t columns = tensor.shape[0];
  if (columns % type->columns != 0) {
    reader.damaged(what + " has " + to_string(columns) + " columns, not a multiple of " + to_string(type->columns) +
                   " as " + type->name + " needs");
  }
  const std::uint64_t rows = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  if (is_mxfp6(tensor.type) && rows % mxfp6_rows_multiple != 0) {
    reader.damaged(what + " has " + to_string(rows) + " rows, not a multiple of " + to_string(mxfp6_rows_multiple) +
                   " as " + type->name + " needs");
  }
  std::uint64_t bytes = tensor.elements() / type->columns;
  if (!multiply(bytes, type->bytes)) reader.damaged("the size of " + what + " overflows");
  return bytes;
}

// The tensor's offset is still relative to the data section.
GgufTensor read_tensor(Reader& reader, const std::string& path, std::uint64_t index) {
  GgufTensor tensor;
  tensor.name = read_name(reader, "the name of tensor " + to_string(index));
  const std::string what = "tensor " + shown(tensor.name);
  tensor.shape = read_shape(reader, what);
  tensor.type = reader.value<std::int32_t>(what);
  tensor.bytes = tensor_bytes(reader, path, tensor, what);
  tensor.offset = reader.value<std::uint64_t>(what);
  return tensor;
}

std::uint64_t read_alignment(const Reader& reader, const GgufFile& file) {
  const GgufValue* value = file.find("general.alignment");
  if (value == nullptr) return default_alignment;
  const std::uint64_t alignment = file.integer("general.alignment").value_or(0);
  if (alignment == 0 || alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0) {
    reader.damaged("general.alignment is not a power of two below 2^32");
  }
  return alignment;
}

// Makes tensor offsets absolute and checks them.
void place_tensors(const Reader& reader, GgufFile& file) {
  for (GgufTensor& tensor : file.tensors) {
    const std::string what = "tensor " + shown(tensor.name);
    if (tensor.offset % file.alignment != 0) {
      reader.damaged("the offset of " + what + " is not a multiple of " + to_string(file.alignment));
    }
    std::uint64_t end = file.data_offset;
    if (!add(end, tensor.offset) || !add(end, tensor.bytes)) reader.damaged("the offset of " + what + " overflows");
    if (end > file.file_size) {
      reader.truncated(what + " ends at byte " + to_string(end));
    }
    tensor.offset += file.data_offset;
  }
}

template <typename T>
void check_unique(const Reader& reader, const std::vector<T>& items, std::string T::* name, const char* what) {
  std::set<std::string_view> seen;
  for (const T& item : items) {
    if (!seen.insert(item.*name).second) reader.damaged(std::string("there are two ") + what + " " + shown(item.*name));
  }
}

void check_apart(const Reader& reader, const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> sorted;
  sorted.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) sorted.push_back(&tensor);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->offset - sorted[i - 1]->offset < sorted[i - 1]->bytes) {
      reader.damaged("tensors " + shown(sorted[i - 1]->name) + " and " + shown(sorted[i]->name) + " overlap");
    }
  }
}

// Tiles are used as they are in the file, so another layout would give garbage.
void check_mxfp6_layout(const GgufFile& first, const GgufFile& part) {
  const auto tiled = [](const GgufTensor& tensor) { return is_mxfp6(tensor.type); };
  if (std::none_of(part.tensors.begin(), part.tensors.end(), tiled)) return;
  if (first.integer(mxfp6_layout_key) == mxfp6_layout) return;
  fail_file(part.path,
            std::string("has MXFP6 tensors but not the metadata ") + mxfp6_layout_key + " = " + to_string(mxfp6_layout),
            quantize_again);
}

std::uint64_t part_index(const GgufFile& file) { return file.integer("split.no").value_or(0); }

// "-00002-of-00003.gguf"; names count from 1.
std::string part_suffix(std::uint64_t index, std::uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(index + 1),
                static_cast<unsigned long long>(count));
  return text;
}

// The common path of all parts, up to the suffix.
std::string part_prefix(const GgufFile& file, std::uint64_t count) {
  const std::uint64_t index = part_index(file);
  if (index >= count || count > UINT16_MAX) {
    fail_file(file.path, "says that it is part " + to_string(index) + " of " + to_string(count), get_again);
  }
  const std::string suffix = part_suffix(index, count);
  const std::size_t length = file.path.size() - std::min(file.path.size(), suffix.size());
  if (file.path.compare(length, std::string::npos, suffix) != 0) {
    fail_file(
        file.path,
        "is part " + to_string(index + 1) + " of " + to_string(count) + ", but its name does not end in " + suffix,
        "give all parts their original names");
  }
  return file.path.substr(0, length);
}

GgufFile read_part(const std::string& prefix, std::uint64_t index, std::uint64_t count) {
  const std::string path = prefix + part_suffix(index, count);
  std::error_code error;
  if (!fs::exists(path, error))
    fail_file(path, "no such file, but the model has " + to_string(count) + " parts", get_all_parts);
  GgufFile part = GgufFile::read(path);
  if (part.integer("split.count") != count || part.integer("split.no") != index) {
    fail_file(path, "its metadata does not say that it is part " + to_string(index + 1) + " of " + to_string(count),
              get_all_parts);
  }
  return part;
}

void check_parts(const std::vector<GgufFile>& parts) {
  const GgufFile& first = parts.front();
  std::set<std::string_view> names;
  for (const GgufFile& part : parts) {
    check_mxfp6_layout(first, part);
    for (const GgufTensor& tensor : part.tensors) {
      if (!names.insert(tensor.name).second) {
        fail_file(part.path, "tensor " + shown(tensor.name) + " is in another part already", get_all_parts);
      }
    }
  }
  if (first.integer("split.tensors.count").value_or(names.size()) != names.size()) {
    fail_file(first.path, "the parts have " + to_string(names.size()) + " tensors, split.tensors.count says otherwise",
              get_all_parts);
  }
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  constexpr const char* names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                   "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<std::uint32_t>(type)];
}

std::vector<GgufValue> GgufArray::elements(std::uint64_t limit) const {
  std::vector<GgufValue> result;
  const char* at = bytes.data();
  for (std::uint64_t i = 0; i < std::min(count, limit); ++i) {
    result.push_back(decode(type, at));
    at += stored_size(type, at);
  }
  return result;
}

std::uint64_t GgufTensor::elements() const {
  std::uint64_t product = 1;
  for (std::uint64_t size : shape) product *= size;
  return product;
}

GgufFile GgufFile::read(const std::string& path) {
  Reader reader(path);
  GgufFile file;
  file.path = path;
  file.file_size = reader.size();
  file.version = read_version(reader, path);
  const auto num_tensors = reader.value<std::uint64_t>("the number of tensors");
  const auto num_entries = reader.value<std::uint64_t>("the number of metadata entries");
  reader.check_room(num_entries, min_entry_bytes, "the metadata");
  if (num_entries > max_entries)
    reader.damaged("the metadata has " + to_string(num_entries) + " entries, expected at most " +
                   to_string(max_entries));
  for (std::uint64_t i = 0; i < num_entries; ++i) file.metadata.push_back(read_entry(reader, i));
  check_unique(reader, file.metadata, &GgufEntry::key, "metadata keys");
  file.alignment = read_alignment(reader, file);

  reader.check_room(num_tensors, min_tensor_bytes, "the list of tensors");
  if (num_tensors > max_tensors)
    reader.damaged("the file has " + to_string(num_tensors) + " tensors, expected at most " + to_string(max_tensors));
  for (std::uint64_t i = 0; i < num_tensors; ++i) file.tensors.push_back(read_tensor(reader, path, i));
  check_unique(reader, file.tensors, &GgufTensor::name, "tensors");
  file.data_offset = (reader.position() + file.alignment - 1) / file.alignment * file.alignment;
  place_tensors(reader, file);
  check_apart(reader, file.tensors);
  if (part_index(file) == 0) check_mxfp6_layout(file, file);  // further parts rely on the first one's metadata
  return file;
}

std::uint64_t total_file_size(const std::vector<GgufFile>& parts) {
  std::uint64_t bytes = 0;
  for (const GgufFile& part : parts) bytes += part.file_size;
  return bytes;
}

std::vector<GgufFile> GgufFile::read_parts(const std::string& path) { return with_other_parts(read(path)); }

std::vector<GgufFile> GgufFile::with_other_parts(GgufFile file) {
  std::vector<GgufFile> parts;
  const std::uint64_t count = file.integer("split.count").value_or(1);
  if (count > 1) {
    const std::string prefix = part_prefix(file, count);
    for (std::uint64_t i = 0; i < count; ++i) parts.push_back(read_part(prefix, i, count));
    check_parts(parts);
  } else {
    parts.push_back(std::move(file));
  }
  check_model_metadata(parts.front());
  return parts;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  for (const GgufEntry& entry : metadata) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

const GgufArray* GgufFile::array(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? nullptr : std::get_if<GgufArray>(value);
}

std::optional<std::string> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || !std::holds_alternative<std::string>(*value)) return std::nullopt;
  return std::get<std::string>(*value);
}

std::optional<std::uint64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* natural = std::get_if<std::uint64_t>(value)) return *natural;
  const auto* whole = std::get_if<std::int64_t>(value);
  if (whole == nullptr || *whole < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*whole);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* natural = std::get_if<std::uint64_t>(value)) return static_cast<double>(*natural);
  if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr || !std::holds_alternative<bool>(*value)) return std::nullopt;
  return std::get<bool>(*value);
}

const GgufTensor* find_tensor(const std::vector<GgufFile>& parts, std::string_view name) {
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      if (tensor.name == name) return &tensor;
    }
  }
  return nullptr;
}

}  // namespace specdec
