#include "cli/commands/info_text.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <variant>

#include "base/index.h"
#include "base/isa.h"
#include "cli/commands/kernel_families.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "engine/projector_search.h"
#include "llama/rollback.h"
#include "model_file/block_file.h"
#include "model_file/head_file.h"
#include "model_file/own_head.h"
#include "platform/console.h"
#include "platform/huge_pages.h"

namespace specdec::cli {
namespace {

constexpr std::size_t line_width = 80;
constexpr std::uint64_t shown_elements = 16;  // elements of an array; more do not fit into a line

std::string value_text(const GgufValue& value, std::uint64_t limit);

std::string array_text(const GgufArray& array, std::uint64_t limit) {
  std::string text;
  for (const GgufValue& element : array.elements(limit))
    text += (text.empty() ? "" : ", ") + value_text(element, limit);
  return "[" + text + (array.count > limit ? ", ...]" : "]");
}

std::string value_text(const GgufValue& value, std::uint64_t limit) {
  if (const auto* text = std::get_if<std::string>(&value)) return "\"" + printable(*text) + "\"";
  if (const auto* array = std::get_if<GgufArray>(&value)) return array_text(*array, limit);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value)) return format("%.7g", *real);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return std::to_string(std::get<std::uint64_t>(value));
}

// The number, or the numbers per layer that some models have.
std::string hyperparameter_text(const GgufFile& file, const std::string& name) {
  const GgufValue* value = hyperparameter(file, name);
  if (value == nullptr) return "";
  const auto* array = std::get_if<GgufArray>(value);
  return array == nullptr ? value_text(*value, 1) : array_text(*array, 4) + " per layer";
}

std::string tokenizer_text(const GgufFile& file) {
  constexpr std::pair<const char*, const char*> known[] = {
      {"gpt2", "byte-level BPE"},
      {"llama", "SentencePiece"},
      {"bert", "WordPiece"},
      {"t5", "Unigram"},
  };
  const std::string model = file.string("tokenizer.ggml.model").value_or("");
  std::string text = printable(model);
  for (const auto& [name, meaning] : known) {
    if (model == name) text += std::string(" (") + meaning + ")";
  }
  const auto splitter = file.string("tokenizer.ggml.pre");
  return splitter ? text + ", pre-tokenizer " + printable(*splitter) : text;
}

std::string shape_text(const GgufTensor& tensor) {
  std::string text;
  for (const std::uint64_t size : tensor.shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::string heads_text(const GgufFile& file) {
  const std::string heads = hyperparameter_text(file, "attention.head_count");
  const std::string kv_heads = hyperparameter_text(file, "attention.head_count_kv");
  return heads.empty() || kv_heads.empty() ? heads : heads + ", key-value heads " + kv_heads;
}

std::string experts_text(const GgufFile& file) {
  const std::string used = hyperparameter_text(file, "expert_used_count");
  const std::string experts = hyperparameter_text(file, "expert_count");
  return experts.empty() || used.empty() ? experts : experts + ", used " + used;
}

std::string vocabulary_text(const GgufFile& file) {
  const auto size = vocabulary_size(file);
  return size ? std::to_string(*size) + " tokens, " + tokenizer_text(file) : tokenizer_text(file);
}

// The kernels of every family on this machine, and the values that SPECDEC_ISA can have.
std::string kernels_text() {
  std::string chosen, others;
  for (const KernelChoice& choice : kernel_families())
    chosen += std::string(chosen.empty() ? "" : ", ") + choice.family + " " + choice.kernels;
  for (const Isa* isa : supported_isas()) others += (others.empty() ? "" : ", ") + std::string(isa->name);
  return chosen + " (SPECDEC_ISA: " + others + ")";
}

std::string rollback_text(const GgufFile& file) {
  switch (rollback_of(file.string("general.architecture").value_or(""))) {
    case Rollback::cells:
      return "cells of the KV cache are dropped";
    case Rollback::snapshots:
      return "snapshots of the recurrent state; its copy for long drafts";
    case Rollback::checkpoints:
      return "a copy of the recurrent state, made before drafts";
    default:
      return "unknown architecture";
  }
}

std::string bits_text(const GgufFile& file) {
  const std::string architecture = file.string("general.architecture").value_or("");
  if (rollback_of(architecture) == Rollback::unknown) return "";
  return has_same_bits(architecture) ? "same bits in passes of any length (for a GPU, run --check)"
                                     : "same bits in any pass not tested: greedy ties may differ";
}

std::string own_head_text(const Parts& parts) {
  const OwnHeadInfo head = own_head(parts);
  if (head.num_layers == 0) return "";
  const std::string layers =
      counted(static_cast<std::uint64_t>(head.num_layers), "layer") + " (multi-token prediction)";
  return layers + (head.problem.empty() ? ", drafts by default (--draft mtp)" : ", cannot be used");
}

std::string head_text(const Parts& parts) {
  const HeadFile head = head_file(parts);
  if (head.kind == HeadKind::none) return "";
  if (head.kind == HeadKind::other) return "this file is " + head.name + ", which cannot be used";
  std::string text = "this file is " + head.name + " for another model (draft of its target)";
  if (head.kind != HeadKind::block) return text;
  return text + ", blocks of " + counted(static_cast<std::uint64_t>(block_file(parts).block_size), "token");
}

std::string pictures_text(const GgufFile& file) {
  const FoundProjector found = find_projector("auto", file);
  return found.path.empty() ? ""
                            : "with " + printable(std::filesystem::path(found.path).filename().string()) +
                                  " beside the model, " + size_text(found.bytes);
}

std::string facts(const Parts& parts) {
  const GgufFile& file = parts.front();
  const TypeTotal all = sum(totals_by_type(parts));
  const std::string density =
      all.parameters == 0 ? "" : ", " + format("%.2f", all.bits_per_weight()) + " bits per weight";
  const std::string format_text = "GGUF " + std::to_string(file.version) + ", " + std::to_string(file.metadata.size()) +
                                  (file.metadata.size() == 1 ? " metadata entry, " : " metadata entries, ") +
                                  counted(all.tensors, "tensor");
  const std::string context = hyperparameter_text(file, "context_length");
  const std::pair<const char*, std::string> lines[] = {
      {"Name", printable(file.string("general.name").value_or(""))},
      {"Architecture", printable(file.string("general.architecture").value_or(""))},
      {"Parameters", count_text(all.parameters)},
      {"File size", size_text(total_file_size(parts)) + density},
      {"Layers", hyperparameter_text(file, "block_count")},
      {"Width", hyperparameter_text(file, "embedding_length")},
      {"Feed-forward", hyperparameter_text(file, "feed_forward_length")},
      {"Heads", heads_text(file)},
      {"Experts", experts_text(file)},
      {"Context", context.empty() ? "" : context + " tokens"},
      {"Vocabulary", vocabulary_text(file)},
      {"Head", head_text(parts)},
      {"Rollback", rollback_text(file)},
      {"Logits", bits_text(file)},
      {"Own head", own_head_text(parts)},
      {"Pictures", pictures_text(file)},
      {"Format", format_text},
  };
  constexpr std::size_t label = 14;
  std::string text;
  for (const auto& [name, value] : lines)
    text += value.empty() ? "" : pad(name, label) + wrap(value, line_width - label, label) + "\n";
  text += pad("Kernels", label) + wrap(kernels_text(), line_width - label, label) + "\n";
  return text + pad("Huge pages", label) +
         (has_huge_pages() ? "available: --no-mmap reads weights into them\n"
                           : "not available: --no-mmap is not faster here\n");
}

std::string part_list(const Parts& parts) {
  if (parts.size() == 1) return "";
  std::string text = "\nParts\n";
  for (const GgufFile& part : parts) text += pad_left(size_text(part.file_size), 12) + "  " + part.path + "\n";
  return text;
}

std::string type_row(const TypeTotal& row, std::uint64_t all_bytes) {
  const double share = all_bytes == 0 ? 0.0 : 100.0 * static_cast<double>(row.bytes) / static_cast<double>(all_bytes);
  return pad(row.name, 12) + pad_left(std::to_string(row.tensors), 9) + pad_left(count_text(row.parameters), 13) +
         pad_left(size_text(row.bytes), 14) + pad_left(format("%.1f %%", share), 10) +
         pad_left(format("%.2f", row.bits_per_weight()), 13) + (row.kernel.empty() ? "" : "  " + row.kernel) + "\n";
}

std::string type_table(const Parts& parts) {
  const std::vector<TypeTotal> totals = totals_by_type(parts);
  if (totals.empty()) return "";
  const TypeTotal all = sum(totals);
  std::string text = "\nType          tensors   parameters          size     share  bits/weight  kernel\n";
  for (const TypeTotal& total : totals) text += type_row(total, all.bytes);
  return totals.size() == 1 ? text : text + type_row(all, all.bytes);
}

}  // namespace

std::string overview_text(const Parts& parts) { return facts(parts) + part_list(parts) + type_table(parts); }

std::string metadata_text(const GgufFile& file) {
  std::size_t key_width = 0;
  for (const GgufEntry& entry : file.metadata) key_width = std::max(key_width, entry.key.size());
  key_width = std::min<std::size_t>(key_width, 40);
  std::string text = "\nMetadata\n";
  for (const GgufEntry& entry : file.metadata) {
    std::string value = value_text(entry.value, shown_elements);
    if (const auto* array = std::get_if<GgufArray>(&entry.value)) {
      value = std::to_string(array->count) + " x " + gguf_type_name(array->type) + " " + value;
    }
    const std::string line = pad(printable(entry.key), key_width) + "  " + value;
    text += (output_is_terminal() ? shorten(line, idx(terminal_size().columns)) : line) + "\n";
  }
  return text;
}

std::string tensors_text(const Parts& parts) {
  std::size_t name_width = 6, shape_width = 5;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      name_width = std::max(name_width, tensor.name.size());
      shape_width = std::max(shape_width, shape_text(tensor).size());
    }
  }
  name_width = std::min<std::size_t>(name_width, 36);
  std::string text =
      "\n" + pad("Tensor", name_width) + "  type              size  " + pad("shape", shape_width) + "  kernel\n";
  for (const GgufFile& part : parts) {
    const std::vector<std::string> kernels = kernels_of_tensors(parts, part);
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      const GgufTensor& tensor = part.tensors[i];
      text += pad(printable(tensor.name), name_width) + "  " + pad(find_weight_type(tensor.type)->name, 10) + "  " +
              pad_left(size_text(tensor.bytes), 10) + "  " +
              (kernels[i].empty() ? shape_text(tensor) : pad(shape_text(tensor), shape_width) + "  " + kernels[i]) +
              "\n";
    }
  }
  return text;
}

}  // namespace specdec::cli
