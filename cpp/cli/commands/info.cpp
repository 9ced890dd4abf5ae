#include "cli/commands/info.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/isa.h"
#include "cli/commands/gguf_summary.h"
#include "cli/commands/info_json.h"
#include "cli/commands/info_text.h"
#include "cli/commands/pair_info.h"
#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "engine/device_check.h"
#include "engine/memory.h"
#include "engine/streaming_plan.h"
#include "gguf/gguf_file.h"
#include "llama/devices.h"
#include "llama/tensor_types.h"
#include "platform/cores.h"
#include "platform/memory.h"
#include "quantize/check_scales.h"
#include "speculative/sequence.h"
#include "streaming/disk_speed.h"

namespace specdec::cli {
namespace {

constexpr std::uint64_t few_elements = 16;  // of an array in JSON, unless all metadata is asked for

struct InfoOptions {
  bool metadata = false, tensors = false, check = false, json = false;
  int context = 0;
  std::string memory;
  std::vector<std::string> devices;
};

CommandLine command_line(InfoOptions& options) {
  CommandLine line;
  line.command = "specdec info";
  line.arguments = "[options] FILE [DRAFT]";
  line.about =
      "Shows the metadata and tensors of a GGUF file. Reads only the header (except with --check) and works on any "
      "GGUF file, including models that llama.cpp cannot run. For a model split into several files, give any one of "
      "them.\n"
      "With a second file: whether it can draft for the first one (the exit status is 1 if not), what it would gain, "
      "and the memory that both need.";
  line.num_positionals = 2;
  line.positional_hint = "; give one file, or a target and its draft (of a model in several files, any one)";
  line.groups = {
      {"Options",
       {flag({"--metadata"}, options.metadata, "list the metadata, one line each; with --json: arrays in full"),
        flag({"--tensors"}, options.tensors,
             "list the tensors with their shapes, columns first, and the kernels that multiply them"),
        flag({"--check"}, options.check,
             "read all MXFP6 weights and fail on an invalid scale; with a GPU, also run the model on it and report "
             "whether drafts can change the output there"),
        own_option({"-dev", "--device"}, option::Addresses{}, "NAME,...", options.devices,
                   "for --check: the GPUs to use, or none"),
        flag({"--json"}, options.json, "everything as one JSON object; arrays are cut to 16 elements"),
        integer({"-c", "--ctx-size"}, options.context, 1, 1 << 24,
                "context size in tokens (default: 4096, or the target's training context if it is shorter)"),
        own_option(
            {"--memory"}, option::String{}, "SIZE", options.memory,
            "memory to use, such as 11G: what a pass would read from the disk (docs/memory.md) (default: what is "
            "available)")}}};
  return line;
}

struct ReadFile {
  Parts parts;
  bool can_run = true;
};

// A complete file is shown even if the model cannot run or other parts of it are missing.
ReadFile read(const std::string& path) {
  GgufFile file = GgufFile::read(path);
  try {
    Parts parts = GgufFile::with_other_parts(file);
    check_tensor_types(parts);
    return {std::move(parts)};
  } catch (const ModelError& error) {
    note(std::string("specdec info: warning: this model cannot run here: ") + error.what() + "\n");
    return {{std::move(file)}, false};
  }
}

// Empty if all weights fit into the memory, or if the file is not a model; a row that says so if the memory was given.
// draft: empty if there is none.
std::string memory_row(const Parts& target, const Parts& draft, const InfoOptions& options) {
  GeneratorOptions generator;
  generator.memory = options.memory;
  generator.n_ctx = options.context > 0 ? std::optional<int>(options.context) : std::nullopt;
  try {
    const int context = generator.n_ctx.value_or(default_context_of(target));
    const CacheNeed caches = cache_need(generator, context, target, draft);
    const StreamingPlan plan = plan_streaming(generator, caches.target + caches.draft, max_draft_tokens + 1, target,
                                              draft, generator.draft_weights, available_memory());
    const std::string sum = size_text(plan.weights + plan.others);
    if (!plan.is_needed())
      return options.memory.empty() ? "" : "\n" + sum + " of memory suffice: all weights stay in memory\n";
    const StreamingForecast forecast = StreamingForecast::of(plan, disk_speed(target.front().path));
    return "\n" +
           wrap("With " + size_text(plan.budget) + " of memory, which is less than " + sum + ": " + forecast.text(), 80,
                0) +
           "\n";
  } catch (const WrongValue&) {
    throw;
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

CommandLine describe_info() {
  static InfoOptions arguments;
  return command_line(arguments);
}

int run_info(int argc, const char* const* argv) {
  InfoOptions options;
  const CommandLine line = command_line(options);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  if (positionals->empty()) throw UsageError("no file given");
  if (default_isa().isa == nullptr) throw Error(default_isa().error);
  if (positionals->size() == 2) {
    if (options.metadata || options.tensors || options.check)
      throw UsageError("--metadata, --tensors and --check are for one file");
    const Parts target = GgufFile::read_parts(local_model((*positionals)[0])),
                draft = GgufFile::read_parts(local_model((*positionals)[1]));
    const PairInfo pair = pair_info(target, draft, options.context);
    write(options.json ? pair_json(pair) : pair_text(pair) + memory_row(target, draft, options));
    return fits(pair) ? 0 : 1;
  }
  const auto [parts, can_run] = read(local_model((*positionals)[0]));
  const std::size_t checked = options.check ? check_scales(parts) : 0;
  if (options.json) {
    write(info_json(parts, options.metadata ? UINT64_MAX : few_elements));
    return 0;
  }
  write(overview_text(parts));
  if (can_run) write(memory_row(parts, {}, options));
  if (options.check) {
    write("\nChecked: all scales are valid (" + counted(checked, "MXFP6 tensor") + ")\n");
    if (!options.devices.empty() || !devices().empty()) {
      const DeviceCheck check = check_device(parts.front().path, options.devices, default_threads());
      write(wrap(check.text(), 80, 0) + "\n");
    }
  }
  if (options.metadata) write(metadata_text(parts.front()));
  if (options.tensors) write(tensors_text(parts));
  return 0;
}

}  // namespace specdec::cli
