#include "engine/model_card.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "base/weight_types.h"
#include "gguf/fingerprint.h"
#include "gguf/gguf_file.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t few_elements = 16;

Json to_json(const GgufValue& value) {
  const auto* const array = std::get_if<GgufArray>(&value);
  if (array == nullptr) {
    return std::visit(
        [](const auto& one) -> Json {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, GgufArray>) return nullptr;
          else return one;
        },
        value);
  }
  if (array->count > few_elements) return nullptr;
  Json list = Json::array();
  for (const GgufValue& element : array->elements()) list.push_back(to_json(element));
  return list;
}

std::string metadata_json(const GgufFile& file) {
  Json json = Json::object();
  for (const GgufEntry& entry : file.metadata) json[entry.key] = to_json(entry.value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// In seconds since 1970; C++17 has no conversion between the two clocks, so both are read now.
std::int64_t modification_time(const std::string& path) {
  std::error_code problem;
  const auto time = std::filesystem::last_write_time(std::filesystem::u8path(path), problem);
  if (problem) return 0;
  const auto age = std::filesystem::file_time_type::clock::now() - time;
  const auto when = std::chrono::system_clock::now().time_since_epoch() - age;
  return std::chrono::duration_cast<std::chrono::seconds>(when).count();
}

}  // namespace

std::shared_ptr<const ModelCard> ModelCards::card(const std::string& path) {
  const std::filesystem::path file = std::filesystem::u8path(path);
  std::error_code problem, other;
  const Known now{std::filesystem::file_size(file, problem), std::filesystem::last_write_time(file, other), nullptr};
  if (problem || other) return std::make_shared<const ModelCard>(read_model_card(path));  // throws
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(path);
    const bool is_same =
        found != known_.end() && found->second.size == now.size && found->second.changed == now.changed;
    if (is_same) return found->second.card;
  }
  auto card = std::make_shared<const ModelCard>(read_model_card(path));
  const std::lock_guard<std::mutex> lock(mutex_);
  known_[path] = {now.size, now.changed, card};
  return card;
}

ModelCard read_model_card(const std::string& path) {
  const std::vector<GgufFile> parts = GgufFile::read_parts(path);
  ModelCard card;
  std::map<int, std::uint64_t> bytes;  // by type
  for (const GgufFile& part : parts) {
    card.file_bytes += part.file_size;
    for (const GgufTensor& tensor : part.tensors) {
      card.parameters += tensor.elements();
      bytes[tensor.type] += tensor.bytes;
    }
  }
  const auto most = std::max_element(bytes.begin(), bytes.end(),
                                     [](const auto& one, const auto& other) { return one.second < other.second; });
  if (most != bytes.end()) card.weight_type = find_weight_type(most->first)->name;
  card.modified = modification_time(parts.front().path);
  card.architecture = parts.front().string("general.architecture").value_or("");
  card.fingerprint = model_fingerprint(parts);
  card.metadata = metadata_json(parts.front());
  return card;
}

}  // namespace specdec
