#include "edited_model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "base/weight_types.h"
#include "gguf/gguf_file.h"
#include "llama-arch.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace specdec::fuzz {
namespace {

namespace fs = std::filesystem;

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string string_bytes(const std::string& text) { return bytes_of<std::uint64_t>(text.size()) + text; }

template <class T>
T load(const std::string& data, std::size_t at) {
  T value;
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

// A value of metadata as it is stored.
struct Stored {
  GgufType type;
  std::string bytes;
};

std::string array_bytes(GgufType element, std::uint64_t count, const std::string& elements) {
  return bytes_of(static_cast<std::uint32_t>(element)) + bytes_of(count) + elements;
}

constexpr std::size_t alignment = 32;

std::size_t aligned(std::size_t size) { return (size + alignment - 1) / alignment * alignment; }

// A sound file taken apart.
struct Entry {
  std::string key;
  Stored value;
};
struct Tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint32_t type;
  std::string data;
  std::uint64_t shift = 0;  // of the offset that is stored

  // As many bytes as type and shape need, zeros after those that it has; what no file can hold keeps those that it has.
  void resize() {
    constexpr std::uint64_t most_elements = 1 << 18;
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : shape) {
      if (dimension == 0 || dimension > most_elements / elements) return;
      elements *= dimension;
    }
    const WeightType* known = find_weight_type(static_cast<int>(type));
    if (known != nullptr && known->columns > 0) data.resize(elements / known->columns * known->bytes);
  }
};
// Tensors lie one after the other, in their order: llama.cpp rejects files whose offsets do not follow from the sizes.
struct Parts {
  std::string architecture;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;

  std::string header() const {
    std::string text = "GGUF" + bytes_of(std::uint32_t{3}) + bytes_of<std::uint64_t>(tensors.size()) +
                       bytes_of<std::uint64_t>(entries.size());
    for (const Entry& entry : entries) {
      text += string_bytes(entry.key) + bytes_of(static_cast<std::uint32_t>(entry.value.type)) + entry.value.bytes;
    }
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      text += string_bytes(tensor.name) + bytes_of(static_cast<std::uint32_t>(tensor.shape.size()));
      for (const std::uint64_t dimension : tensor.shape) text += bytes_of(dimension);
      text += bytes_of(tensor.type) + bytes_of(offset + tensor.shift);
      offset += aligned(tensor.data.size());
    }
    text.resize(aligned(text.size()));
    return text;
  }

  std::string data() const {
    std::string all;
    for (const Tensor& tensor : tensors) {
      all += tensor.data;
      all.resize(aligned(all.size()));
    }
    return all;
  }
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string encoded(const GgufEntry& entry) {
  const auto number = [&](auto example) {
    using T = decltype(example);
    if (const auto* value = std::get_if<double>(&entry.value)) return bytes_of(static_cast<T>(*value));
    if (const auto* value = std::get_if<std::int64_t>(&entry.value)) return bytes_of(static_cast<T>(*value));
    return bytes_of(static_cast<T>(std::get<std::uint64_t>(entry.value)));
  };
  switch (entry.type) {
    case GgufType::string:
      return string_bytes(std::get<std::string>(entry.value));
    case GgufType::array: {
      const auto& array = std::get<GgufArray>(entry.value);
      return array_bytes(array.type, array.count, array.bytes);
    }
    case GgufType::boolean:
      return bytes_of(std::get<bool>(entry.value));
    case GgufType::u32:
      return number(std::uint32_t{});
    case GgufType::i32:
      return number(std::int32_t{});
    case GgufType::f32:
      return number(float{});
    default:  // the gguf package writes no others for these models
      return number(std::uint64_t{});
  }
}

Parts parts_of(const fs::path& path) {
  const GgufFile file = GgufFile::read(path.string());
  Parts parts;
  parts.architecture = file.string("general.architecture").value_or("");
  for (const GgufEntry& entry : file.metadata) parts.entries.push_back({entry.key, {entry.type, encoded(entry)}});
  const std::string bytes = contents(path);
  for (const GgufTensor& t : file.tensors) {
    parts.tensors.push_back({t.name, t.shape, static_cast<std::uint32_t>(t.type), bytes.substr(t.offset, t.bytes)});
  }
  return parts;
}

struct Sources {
  std::vector<std::string> names;
  std::vector<Parts> models;
  std::vector<std::string> keys;
};

const Sources& sources() {
  static const Sources all = [] {
    const char* folder = std::getenv("SPECDEC_FUZZ_MODELS");
    if (folder == nullptr) {
      std::fprintf(stderr, "SPECDEC_FUZZ_MODELS must name a folder made by tests/fuzz/make_models.py\n");
      std::exit(2);
    }
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    Sources found;
    for (const fs::path& path : paths) {
      found.names.push_back(path.stem().string());
      found.models.push_back(parts_of(path));
    }
    std::ifstream keys(fs::path(folder) / "keys.txt");
    for (std::string key; std::getline(keys, key);) found.keys.push_back(key);
    return found;
  }();
  return all;
}

// What a file might hold for any key.
const std::vector<Stored>& values() {
  static const std::vector<Stored> all = [] {
    std::vector<Stored> list;
    for (const std::uint64_t n : {0ull, 1ull, 2ull, 3ull, 4ull, 7ull, 16ull, 63ull, 255ull, 4096ull, 1ull << 16,
                                  1ull << 24, (1ull << 31) - 1, 1ull << 31, (1ull << 32) - 2, (1ull << 32) - 1}) {
      list.push_back({GgufType::u32, bytes_of(static_cast<std::uint32_t>(n))});
    }
    for (const std::int32_t n : {-1, -2, 1, INT32_MIN}) list.push_back({GgufType::i32, bytes_of(n)});
    for (const std::uint64_t n : {1ull, 1ull << 32, 1ull << 63, ~0ull}) list.push_back({GgufType::u64, bytes_of(n)});
    for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{2}, INT64_MIN})
      list.push_back({GgufType::i64, bytes_of(n)});
    using Floats = std::numeric_limits<float>;
    for (const float x : {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1e-30f, 1e30f, 1e4f, Floats::quiet_NaN(), Floats::infinity(),
                          -Floats::infinity()}) {
      list.push_back({GgufType::f32, bytes_of(x)});
    }
    list.push_back({GgufType::f64, bytes_of(std::numeric_limits<double>::quiet_NaN())});
    for (const char n : {'\0', '\1', '\2'}) list.push_back({GgufType::boolean, bytes_of(n)});
    list.push_back({GgufType::u8, bytes_of(std::uint8_t{1})});
    list.push_back({GgufType::i8, bytes_of(std::int8_t{-1})});
    list.push_back({GgufType::u16, bytes_of(std::uint16_t{0xFFFF})});
    list.push_back({GgufType::i16, bytes_of(std::int16_t{-1})});
    for (const char* text : {"",
                             "a",
                             "llama",
                             "none",
                             "linear",
                             "yarn",
                             "longrope",
                             "gpt2",
                             "bert",
                             "t5",
                             "rwkv",
                             "plamo2",
                             "llama-bpe",
                             "gpt-2",
                             "default",
                             "\xff\x1b[2J\n",
                             "{{ messages }}",
                             "\xe2\x96\x81",
                             "<0x",
                             "<0xZZ>",
                             "\\x",
                             "\\x4",
                             "He",
                             "a b",
                             " "}) {
      list.push_back({GgufType::string, string_bytes(text)});
    }
    list.push_back({GgufType::string, string_bytes(std::string(300, 'x'))});
    list.push_back({GgufType::string, string_bytes(std::string(70'000, 'x'))});
    for (const std::uint32_t element : {0u, 4u, 5u, 6u, 7u, 8u, 9u, 10u}) {
      list.push_back({GgufType::array, array_bytes(static_cast<GgufType>(element), 0, "")});
    }
    for (const std::uint32_t n : {0u, 1u, 8u, 0xFFFFFFFFu}) {
      list.push_back({GgufType::array, array_bytes(GgufType::u32, 2, bytes_of(n) + bytes_of(n))});
      list.push_back(
          {GgufType::array, array_bytes(GgufType::i32, 4, bytes_of(n) + bytes_of(n) + bytes_of(0u) + bytes_of(0u))});
    }
    list.push_back({GgufType::array, array_bytes(GgufType::f32, 3, std::string(12, '\xff'))});
    list.push_back({GgufType::array, array_bytes(GgufType::f32, 3, std::string(12, '\0'))});
    list.push_back({GgufType::array, array_bytes(GgufType::boolean, 2, std::string("\1\0", 2))});
    list.push_back({GgufType::array, array_bytes(GgufType::string, 1, string_bytes("a"))});
    list.push_back({GgufType::array, array_bytes(GgufType::u8, 5, std::string("\1\0\0\0\x7f", 5))});
    list.push_back({GgufType::array, array_bytes(GgufType::u32, UINT64_MAX, "")});
    return list;
  }();
  return all;
}

constexpr std::uint64_t dimensions[] = {0,  1,   2,   3,          16,         31,         32,   33,
                                        64, 256, 288, 1ull << 31, 1ull << 32, 1ull << 62, ~0ull};
constexpr std::uint32_t types[] = {0,  1,  2,  3,  6,  7,  8,  9,  10, 11, 12, 13, 14,   15,
                                   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,   29,
                                   30, 34, 35, 39, 40, 41, 42, 96, 97, 4,  31, 43, 1000, 0xFFFFFFFF};
constexpr float weights[] = {
    0.0f, -1.0f, 1e30f, 1e38f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};

template <class T, std::size_t count>
T one_of(const T (&list)[count], std::size_t i) {
  return list[i % count];
}

struct Edit {
  std::uint8_t what, value;
  std::uint16_t place;
  std::uint32_t number;
};
static_assert(sizeof(Edit) == 8);

// In the order of names_of_edits.
enum What {
  set,
  remove,
  put_number,
  set_element,
  set_elements,
  wrap,
  repeat,
  architecture,
  type,
  shape,
  offset,
  drop,
  rename,
  weight,
  truncate,
  flip
};
static_assert(flip + 1 == std::size(names_of_edits));
constexpr std::size_t num_whats = std::size(names_of_edits);

std::string key_at(const Parts& parts, std::size_t place) {
  const std::vector<std::string>& known = sources().keys;
  place %= parts.entries.size() + known.size();
  if (place < parts.entries.size()) return parts.entries[place].key;
  std::string key = known[place - parts.entries.size()];
  constexpr const char* arch = "{arch}";
  if (key.compare(0, std::strlen(arch), arch) == 0) key.replace(0, std::strlen(arch), parts.architecture);
  return key;
}

Stored& value_of(Parts& parts, const std::string& key) {
  for (Entry& entry : parts.entries) {
    if (entry.key == key) return entry.value;
  }
  return parts.entries.emplace_back(Entry{key, {GgufType::u32, bytes_of(0u)}}).value;
}

std::size_t width(GgufType type) {
  constexpr std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return sizes[static_cast<std::size_t>(type)];
}

// Elements [begin, end) of an array become one of values(), if it has their type, or else bytes of `number`.
void set_elements_of(Stored& array, const Edit& edit, bool to_the_end) {
  if (array.type != GgufType::array) return;
  const auto inner = static_cast<GgufType>(load<std::uint32_t>(array.bytes, 0));
  const auto count = load<std::uint64_t>(array.bytes, 4);
  if (count == 0 || count > 1000 || (inner != GgufType::string && width(inner) == 0)) return;
  std::vector<std::string> elements;
  for (std::size_t i = 0, at = 12; i < count; ++i) {
    const std::size_t size = inner == GgufType::string ? 8 + load<std::uint64_t>(array.bytes, at) : width(inner);
    elements.push_back(array.bytes.substr(at, size));
    at += size;
  }
  const std::size_t begin = edit.number % count, end = to_the_end ? count : begin + 1;
  std::vector<const Stored*> fitting;
  for (const Stored& value : values()) {
    if (value.type == inner) fitting.push_back(&value);
  }
  for (std::size_t i = begin; i < end; ++i) {
    if (!fitting.empty()) elements[i] = fitting[edit.value % fitting.size()]->bytes;
    else elements[i].assign(elements[i].size(), static_cast<char>(edit.value));
  }
  array.bytes.resize(12);
  for (const std::string& element : elements) array.bytes += element;
}

// A dimension more or less, two exchanged, or one that becomes any number, or one near to its own.
void change_shape(std::vector<std::uint64_t>& shape, const Edit& edit) {
  const std::size_t how = edit.number % 8;
  if (how == 7 && shape.size() > 1) shape.pop_back();
  else if (how == 6) shape.push_back(one_of(dimensions, edit.value));
  else if (how == 5) std::rotate(shape.begin(), shape.begin() + 1, shape.end());
  else {
    std::uint64_t& dimension = shape[edit.number / 8 % shape.size()];
    const std::uint64_t near[] = {dimension + 1, dimension - 1,  dimension / 2,
                                  dimension * 2, dimension + 32, dimension * 256};
    dimension = how < 2 ? one_of(dimensions, edit.value) : one_of(near, edit.value);
  }
}

// Another architecture, and the hyperparameters that it has are this one's.
void change_architecture(Parts& parts, std::size_t number) {
  const std::string before = parts.architecture + ".";
  parts.architecture = llm_arch_name(static_cast<llm_arch>(number % num_architectures()));
  for (Entry& entry : parts.entries) {
    if (entry.key == "general.architecture") entry.value = {GgufType::string, string_bytes(parts.architecture)};
    if (entry.key.compare(0, before.size(), before) == 0)
      entry.key = parts.architecture + "." + entry.key.substr(before.size());
  }
}

void apply(Parts& parts, const Edit& edit) {
  const auto what = static_cast<What>(edit.what % num_whats);
  if (what == architecture) {
    change_architecture(parts, edit.place);
  } else if (what < type) {
    if (parts.entries.empty()) return;
    const std::string key = key_at(parts, edit.place);
    if (what == remove || what == repeat) {
      const auto at = std::find_if(parts.entries.begin(), parts.entries.end(),
                                   [&](const Entry& entry) { return entry.key == key; });
      if (at == parts.entries.end()) return;
      if (what == remove) parts.entries.erase(at);
      else parts.entries.push_back(Entry(*at));
      return;
    }
    Stored& value = value_of(parts, key);
    if (what == set) value = values()[edit.value % values().size()];
    if (what == put_number && width(value.type) > 0)
      value.bytes.replace(0, std::min<std::size_t>(4, value.bytes.size()), bytes_of(edit.number), 0,
                          std::min<std::size_t>(4, value.bytes.size()));
    if (what == set_element || what == set_elements) set_elements_of(value, edit, what == set_elements);
    if (what == wrap && value.type != GgufType::array) {
      std::string elements;
      const std::uint64_t count = edit.number % 4;
      for (std::uint64_t i = 0; i < count; ++i) elements += value.bytes;
      value = {GgufType::array, array_bytes(value.type, count, elements)};
    }
  }
  if (what < type || parts.tensors.empty()) return;
  Tensor& tensor = parts.tensors[edit.place % parts.tensors.size()];
  if (what == type) tensor.type = one_of(types, edit.value);
  if (what == shape) change_shape(tensor.shape, edit);
  if (what == type || what == shape) tensor.resize();
  if (what == offset) tensor.shift = edit.value % 4 == 0 ? edit.number : 32ull * edit.value;
  if (what == rename) std::swap(tensor.name, parts.tensors[edit.number % parts.tensors.size()].name);
  if (what == weight) {
    const float number = one_of(weights, edit.value);
    for (std::size_t i = 0, at = edit.number % std::max<std::size_t>(1, tensor.data.size()) / 4 * 4;
         i < 16 && at + 4 <= tensor.data.size(); ++i, at += 4) {
      std::memcpy(tensor.data.data() + at, &number, 4);
    }
  }
  if (what == drop)
    parts.tensors.erase(parts.tensors.begin() + edit.place % static_cast<std::ptrdiff_t>(parts.tensors.size()));
}

void apply_to_bytes(std::string& file, std::size_t header, const Edit& edit) {
  if (file.empty()) return;
  if (edit.what % num_whats == truncate) file.resize(edit.number % file.size());
  else
    file[edit.number % (edit.value % 2 == 0 ? std::min(header, file.size()) : file.size())] ^=
        static_cast<char>(edit.place | 1);
}

void show(const Parts& parts, const std::string& name, const std::vector<Edit>& edits) {
  std::fprintf(stderr, "%s\n", name.c_str());
  for (const Edit& edit : edits) {
    const std::size_t what = edit.what % num_whats;
    const std::string place = what == architecture
                                  ? llm_arch_name(static_cast<llm_arch>(edit.place % num_architectures()))
                              : what < type ? key_at(parts, edit.place)
                                            : parts.tensors[edit.place % parts.tensors.size()].name;
    std::fprintf(stderr, "  %s %s: value %u, number %u\n", names_of_edits[what], place.c_str(), edit.value,
                 edit.number);
  }
}

const std::string& path() {
  static const std::string chosen = [] {
    if (const char* given = std::getenv("SPECDEC_FUZZ_FILE")) return std::string(given);
    return (fs::temp_directory_path() / ("specdec-fuzz-" + std::to_string(getpid()) + ".gguf")).string();
  }();
  static const struct Remove {
    ~Remove() {
      if (std::getenv("SPECDEC_FUZZ_FILE") == nullptr) std::remove(chosen.c_str());
    }
  } at_exit;
  return chosen;
}

void write(const std::string& file) {
  std::ofstream(path(), std::ios::binary | std::ios::trunc)
      .write(file.data(), static_cast<std::streamsize>(file.size()));
}

}  // namespace

std::size_t num_models() { return sources().models.size(); }

std::size_t num_architectures() { return LLM_ARCH_UNKNOWN; }

std::string write_as_architecture(std::size_t model, std::size_t architecture) {
  Parts parts = sources().models[model];
  change_architecture(parts, architecture);
  write(parts.header() + parts.data());
  return path();
}

std::string write_edited_model(const std::uint8_t* input, std::size_t size) {
  const std::size_t number = (size == 0 ? 0 : input[0]) % sources().models.size();
  std::vector<Edit> edits(size == 0 ? 0 : (size - 1) / sizeof(Edit));
  if (!edits.empty()) std::memcpy(edits.data(), input + 1, edits.size() * sizeof(Edit));
  Parts parts = sources().models[number];
  if (std::getenv("SPECDEC_FUZZ_SHOW") != nullptr) show(parts, sources().names[number], edits);
  for (const Edit& edit : edits) {
    if (edit.what % num_whats < truncate) apply(parts, edit);
  }
  std::string file = parts.header();
  const std::size_t header = file.size();
  file += parts.data();
  for (const Edit& edit : edits) {
    if (edit.what % num_whats >= truncate) apply_to_bytes(file, header, edit);
  }
  write(file);
  return path();
}

std::size_t mutate_edits(std::uint8_t* input, std::size_t size, std::size_t max_size, unsigned seed) {
  std::minstd_rand random(seed + 1);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  if (max_size < 1 + sizeof(Edit)) return LLVMFuzzerMutate(input, size, max_size);
  if (size == 0) input[size++] = 0;
  std::size_t count = (size - 1) / sizeof(Edit);
  const auto place = [&](std::size_t i) { return input + 1 + i * sizeof(Edit); };
  const auto anything = [&](std::uint8_t* edit) {
    for (std::size_t i = 0; i < sizeof(Edit); ++i) edit[i] = static_cast<std::uint8_t>(random() >> 8);
  };
  const std::size_t choice = below(16);
  if (choice == 0) {
    input[0] = static_cast<std::uint8_t>(below(256));
  } else if (choice == 1 && count > 1) {
    const std::size_t gone = below(count--);
    std::memmove(place(gone), place(gone + 1), (count - gone) * sizeof(Edit));
  } else if (choice < 6 && count > 0) {  // part of one edit
    std::uint8_t* edit = place(below(count));
    const std::size_t at = below(sizeof(Edit));
    LLVMFuzzerMutate(edit + at, sizeof(Edit) - at, sizeof(Edit) - at);
  } else if (choice < 9 && count > 0) {
    anything(place(below(count)));
  } else if ((count + 2) * sizeof(Edit) < max_size && count < 8) {
    anything(place(count++));
  } else {
    count = 1;
    anything(place(0));
  }
  return 1 + count * sizeof(Edit);
}

}  // namespace specdec::fuzz
