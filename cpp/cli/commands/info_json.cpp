#include "cli/commands/info_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "cli/commands/kernel_families.h"
#include "engine/projector_search.h"
#include "llama/rollback.h"
#include "model_file/block_file.h"
#include "model_file/head_file.h"
#include "model_file/own_head.h"
#include "platform/huge_pages.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const GgufValue& value, std::uint64_t limit) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* natural = std::get_if<std::uint64_t>(&value)) return *natural;
  Json elements = Json::array();
  for (const GgufValue& element : std::get<GgufArray>(value).elements(limit))
    elements.push_back(to_json(element, limit));
  return elements;
}

Json metadata_json(const GgufFile& file, std::uint64_t limit) {
  Json entries = Json::object();
  for (const GgufEntry& entry : file.metadata) {
    Json json = {{"type", gguf_type_name(entry.type)}};
    if (const auto* array = std::get_if<GgufArray>(&entry.value)) {
      json["element_type"] = gguf_type_name(array->type);
      json["count"] = array->count;
    }
    json["value"] = to_json(entry.value, limit);
    entries[entry.key] = std::move(json);
  }
  return entries;
}

Json types_json(const Parts& parts) {
  const std::vector<TypeTotal> totals = totals_by_type(parts);
  const double all_bytes = static_cast<double>(sum(totals).bytes);
  Json list = Json::array();
  for (const TypeTotal& total : totals) {
    list.push_back({{"type", total.name},
                    {"tensors", total.tensors},
                    {"parameters", total.parameters},
                    {"bytes", total.bytes},
                    {"share", static_cast<double>(total.bytes) / all_bytes},
                    {"bits_per_weight", total.bits_per_weight()},
                    {"kernel", total.kernel}});
  }
  return list;
}

Json tensors_json(const Parts& parts) {
  Json list = Json::array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::string> kernels = kernels_of_tensors(parts, parts[i]);
    for (std::size_t t = 0; t < kernels.size(); ++t) {
      const GgufTensor& tensor = parts[i].tensors[t];
      list.push_back({{"name", tensor.name},
                      {"type", find_weight_type(tensor.type)->name},
                      {"shape", tensor.shape},
                      {"bytes", tensor.bytes},
                      {"offset", tensor.offset},
                      {"part", i},
                      {"kernel", kernels[t].empty() ? Json(nullptr) : Json(kernels[t])}});
    }
  }
  return list;
}

Json parts_json(const Parts& parts) {
  Json list = Json::array();
  for (const GgufFile& part : parts) {
    list.push_back({{"path", part.path},
                    {"file_size", part.file_size},
                    {"data_offset", part.data_offset},
                    {"tensors", part.tensors.size()}});
  }
  return list;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json hyperparameter_json(const GgufFile& file, const std::string& name) {
  const GgufValue* value = hyperparameter(file, name);
  return value == nullptr ? Json(nullptr) : to_json(*value, UINT64_MAX);
}

// JSON null if the file has no head. "problem": why it cannot draft; null if it can.
Json own_head_json(const Parts& parts) {
  const OwnHeadInfo head = own_head(parts);
  if (head.num_layers == 0) return nullptr;
  return {{"layers", head.num_layers}, {"problem", head.problem.empty() ? Json(nullptr) : Json(head.problem)}};
}

// JSON null for a whole model. "target_layers": the layers whose inputs the head reads. "block_size": of block
// drafters, in tokens.
Json head_json(const Parts& parts) {
  const HeadFile head = head_file(parts);
  if (head.kind == HeadKind::none) return nullptr;
  Json json = {
      {"kind", name(head.kind)}, {"target_layers", head.target_layers}, {"usable", head.kind != HeadKind::other}};
  if (head.kind == HeadKind::block) json["block_size"] = block_file(parts).block_size;
  return json;
}

// {family: name of its kernels}
Json kernels_json() {
  Json json = Json::object();
  for (const KernelChoice& choice : kernel_families()) json[choice.family] = choice.kernels;
  return json;
}

}  // namespace

std::string info_json(const Parts& parts, std::uint64_t max_elements) {
  const GgufFile& file = parts.front();
  const TypeTotal all = sum(totals_by_type(parts));
  const std::string projector = find_projector("auto", file).path;
  Json json = {
      {"name", or_null(file.string("general.name"))},
      {"architecture", or_null(file.string("general.architecture"))},
      {"parameters", all.parameters},
      {"file_size", total_file_size(parts)},
      {"bits_per_weight", all.bits_per_weight()},
      {"layers", hyperparameter_json(file, "block_count")},
      {"width", hyperparameter_json(file, "embedding_length")},
      {"feed_forward", hyperparameter_json(file, "feed_forward_length")},
      {"heads", hyperparameter_json(file, "attention.head_count")},
      {"kv_heads", hyperparameter_json(file, "attention.head_count_kv")},
      {"experts", hyperparameter_json(file, "expert_count")},
      {"experts_used", hyperparameter_json(file, "expert_used_count")},
      {"context_length", hyperparameter_json(file, "context_length")},
      {"vocabulary",
       {{"size", or_null(vocabulary_size(file))},
        {"type", or_null(file.string("tokenizer.ggml.model"))},
        {"pre", or_null(file.string("tokenizer.ggml.pre"))}}},
      {"rollback", name(rollback_of(file.string("general.architecture").value_or("")))},
      {"same_bits", has_same_bits(file.string("general.architecture").value_or(""))},
      {"own_head", own_head_json(parts)},
      {"projector", projector.empty() ? Json(nullptr) : Json(projector)},
      {"head", head_json(parts)},
      {"gguf_version", file.version},
      {"alignment", file.alignment},
      {"parts", parts_json(parts)},
      {"types", types_json(parts)},
      {"kernels", kernels_json()},
      {"huge_pages", has_huge_pages()},
  };
  json["metadata"] = metadata_json(file, max_elements);
  json["tensors"] = tensors_json(parts);
  constexpr auto replace = nlohmann::json::error_handler_t::replace;  // strings that are not UTF-8
  return json.dump(2, ' ', false, replace) + "\n";
}

}  // namespace specdec::cli
