#include "cli/commands/comparison.h"

#include <filesystem>
#include <system_error>
#include <variant>

#include "base/error.h"
#include "base/weight_types.h"
#include "cli/commands/gguf_summary.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "engine/memory.h"
#include "engine/resolved_draft.h"
#include "model_file/own_head.h"
#include "platform/memory.h"
#include "quantize/gguf_quantizer.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* automatic = "auto";  // --mxfp6 auto

std::string mxfp6_type() { return find_weight_type(type_id::mxfp6_e2m3)->name; }

// The type of most of a model's bytes: "F16".
std::string weight_type(const std::string& path) {
  const std::vector<TypeTotal> totals = totals_by_type(GgufFile::read_parts(path));
  return totals.empty() ? "no weights" : totals.front().name;
}

std::string weight_name(const std::string& path) {
  const std::string type = weight_type(path);
  return type == mxfp6_type() ? "MXFP6" : type;
}

// Bytes of the file that the quantizer writes, without its header.
std::uint64_t quantized_bytes(const std::string& path) {
  const Parts parts = GgufFile::read_parts(path);
  std::uint64_t bytes = parts.front().data_offset;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      bytes +=
          reason_to_keep(tensor, parts).empty() ? tensor.elements() / mxfp6_block * mxfp6_block_bytes : tensor.bytes;
    }
  }
  return bytes;
}

// Called before the temporary folder is created.
void check_disk(const std::string& target, std::uint64_t bytes) {
  const fs::path folder = fs::temp_directory_path();
  const std::uint64_t available = fs::space(folder).available;
  if (bytes <= available) return;
  throw Error("quantizing " + target + " needs " + size_text(bytes) + " in " + folder.string() + ", which has " +
              size_text(available) +
              " free; name another folder (TMPDIR=...) or a quantized file (--mxfp6 FILE), or leave --mxfp6 out");
}

// Plans one load of all files if they fit into memory, otherwise one load per file. needs: memory of each file.
std::vector<std::vector<std::size_t>> plan_loads(const std::vector<ComparedFile>& files,
                                                 const std::vector<MemoryNeed>& needs, bool sequential) {
  const std::uint64_t available = available_memory();
  std::vector<std::vector<std::size_t>> loads;
  std::vector<std::size_t> all;
  std::uint64_t together = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    all.push_back(i);
    loads.push_back({i});
    together += needs[i].total();
    if (available == 0 || needs[i].total() <= available) continue;
    throw Error(files[i].name + " (" + files[i].options.target + ") needs " + size_text(needs[i].total()) +
                " of memory: weights " + size_text(needs[i].weights) + ", caches " + size_text(needs[i].caches) + "; " +
                size_text(available) +
                " are available. End other programs, use smaller models, or ask for a shorter context (-c)");
  }
  const bool fits = available == 0 || together <= available;
  return fits && !sequential ? std::vector<std::vector<std::size_t>>{all} : loads;
}

void quantize(const std::string& in, const std::string& out, ProgressLine& progress) {
  QuantizeOptions options;
  options.progress = [&](const QuantizeProgress& at) {
    return progress.goes_on([&] { return "quantizing to MXFP6: " + format("%.0f %%", 100.0 * at.done); });
  };
  try {
    quantize_gguf(in, out, options);
  } catch (const ModelError& error) {
    throw ModelError(std::string(error.what()) + "; name a quantized file (--mxfp6 FILE), or leave --mxfp6 out");
  }
}

// The draft of a comparison of files, which share it: the one chosen for the given target. A head of its own is not
// shared.
GeneratorOptions with_one_draft(GeneratorOptions options) {
  if (!std::holds_alternative<AutomaticDraft>(options.draft)) return options;
  const ResolvedDraft found = resolve_draft(options, GgufFile::read_parts(options.target));
  if (!found.choice.empty()) tell("note: " + found.choice);
  for (const std::string& text : found.notes) tell("note: " + text);
  options.draft = found.source;
  if (std::holds_alternative<OwnHead>(found.source)) options.draft = NoDraft();
  return options;
}

// Adds the file's modes without and with a draft.
void add_file(Comparison& comparison, const std::string& name, const GeneratorOptions& options) {
  const std::size_t file = comparison.files.size();
  comparison.files.push_back({name, options});
  comparison.modes.push_back({name, file, false});
  comparison.modes.push_back({name + " + speculation", file, true});
}

}  // namespace

Option mxfp6_option(ComparisonOptions& options) {
  return text({"--mxfp6"}, "FILE|auto", options.mxfp6,
              "also compare the target's MXFP6 version: this file; auto: quantize to a temporary file in TMPDIR, "
              "removed at the end");
}

void prepare(const ComparisonOptions& options, ProgressLine& progress, Comparison& comparison) {
  const bool are_several = !options.mxfp6.empty() || !options.also.empty();
  const GeneratorOptions given = are_several ? with_one_draft(options.generator) : options.generator;
  if (given.num_draft_tokens == 0)
    throw UsageError("nothing to compare with: -k 0 turns drafts off; leave it out, or give a -k above 0");
  const bool is_plain = std::holds_alternative<PlainDecoding>(given.draft);
  if (is_plain || (!has_draft(given.draft) && !has_own_head(given.target)))
    throw UsageError("nothing to compare with: give a draft (-md FILE, -md suffix or -md ngram)");
  if (!options.mxfp6.empty() && weight_type(given.target) == mxfp6_type())
    throw UsageError("--mxfp6 adds the target's MXFP6 version, but the target " + given.target +
                     " is MXFP6 already; leave --mxfp6 out");

  add_file(comparison, weight_name(given.target), given);
  const bool make_file = options.mxfp6 == automatic;
  if (!options.mxfp6.empty()) {
    GeneratorOptions quantized = given;
    if (!make_file) quantized.target = options.mxfp6;
    add_file(comparison, make_file ? "MXFP6" : weight_name(options.mxfp6), quantized);
  }
  for (const std::string& path : options.also) {
    GeneratorOptions other = given;
    other.target = path;
    add_file(comparison, shorten(printable(fs::path(path).stem().string()), 20), other);
  }

  std::vector<MemoryNeed> needs;
  for (const ComparedFile& file : comparison.files) needs.push_back(memory_need(file.options));
  if (make_file) {
    const std::uint64_t bytes = quantized_bytes(given.target);
    check_disk(given.target, bytes);
    needs[1].weights = needs[1].weights - model_bytes(given.target) + bytes;  // instead of the target's
  }
  comparison.loads = plan_loads(comparison.files, needs, options.sequential);
  if (!make_file) return;
  comparison.temporary.emplace();
  GeneratorOptions& quantized = comparison.files[1].options;
  quantized.target = (comparison.temporary->path() / "mxfp6.gguf").string();
  quantize(given.target, quantized.target, progress);
}

}  // namespace specdec::cli
