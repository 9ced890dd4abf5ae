#include "cli/shared_options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <system_error>

#include "cli/hub_models.h"
#include "cli/prompt.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "engine/bundled_models.h"
#include "engine/request_options.h"
#include "hub/companions.h"
#include "hub/model_name.h"
#include "llama/devices.h"
#include "platform/console.h"
#include "platform/executable.h"
#include "platform/huge_pages.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Whether the name is a file rather than a name on the hub; the file need not exist.
bool is_file(const std::string& name) {
  if (is_hub_name(name) || short_name(name)) return false;
  std::error_code ignored;
  return fs::exists(name, ignored) || ends_with(name, ".gguf");
}

bool begins_as_gguf(const std::string& path) {
  char start[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(start, sizeof start) && std::string(start, sizeof start) == "GGUF";
}

// Whether the text names a model; otherwise it may be a prompt without -p.
bool names_model(const std::string& text) {
  if (ends_with(text, ".gguf") || is_hub_name(text) || short_name(text) || begins_as_gguf(text)) return true;
  std::error_code ignored;
  if (fs::exists(text, ignored) || std::count(text.begin(), text.end(), '/') != 1) return false;
  try {
    (void)parse_hub_name(text);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// Folders of the bundled models: in the program's own folder (a copy, the build tree), or in the Python package that
// the program was installed with.
std::vector<std::string> model_folders() {
  const fs::path folder = executable_path().parent_path();
  std::vector<std::string> folders = {(folder / "models").string(), folder.string()};
  std::error_code ignored;
  std::vector<fs::path> libraries = {folder.parent_path() /
                                     "Lib"};  // on Windows; other systems have a folder per version of Python
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.parent_path() / "lib", ignored)) {
    if (entry.path().filename().string().compare(0, 6, "python") == 0) libraries.push_back(entry.path());
  }
  for (const fs::path& library : libraries) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path models = library / packages / "specdec_native" / "models";
      if (fs::exists(models, ignored)) folders.push_back(models.string());
    }
  }
  return folders;
}

LoadProgressCallback load_progress() {
  return [line = std::make_shared<ProgressLine>()](const LoadProgress& at) {
    const bool goes_on = line->goes_on([&] { return at.step + format(": %.0f %%", 100.0 * at.share); });
    if (at.share >= 1.0) line->clear();
    return goes_on;
  };
}

std::string device_list() {
  std::string list;
  for (const Device& device : devices()) list += text(device) + "\n";
  const std::string problems = device_problems();
  return problems.empty() ? list : list + (list.empty() ? "no device: " : "") + problems + "\n";
}

}  // namespace

Group model_group(GeneratorOptions& options) {
  Group group = group_of(generator_options(), "Models", options);
  const std::vector<Option> from_hub = {
      {{"-hf", "-hfr", "--hf-repo"},
       "OWNER/REPO[:QUANT]",
       "target model from the Hugging Face hub, downloaded once into its cache; the same as -m hf:OWNER/REPO:QUANT "
       "(default QUANT: Q4_K_M). HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE are respected",
       [&options](const std::string& name) { options.target = hub_name(name).text(); }},
      {{"-hfd", "-hfrd", "--hf-repo-draft"},
       "OWNER/REPO[:QUANT]",
       "draft model from the hub; the same as -md hf:...",
       [&options](const std::string& name) { options.draft = DraftModel{hub_name(name).text()}; }}};
  group.options.push_back(
      {{"-cmoe", "--cpu-moe"}, "", "keep the experts of all of the target's layers on the CPU", [&options](auto&) {
         options.n_cpu_moe = all_experts;
       }});
  group.options.push_back({{"-cmoed", "--cpu-moe-draft", "--spec-draft-cpu-moe"},
                           "",
                           "keep the experts of all of the draft model's layers on the CPU",
                           [&options](auto&) { options.n_cpu_moe_draft = all_experts; }});
  group.options.push_back(
      {{"--list-devices"}, "", "list the GPUs that --device can name, and exit", [](const std::string&) {
         write(device_list());
         throw Answered();
       }});
  group.options.insert(group.options.begin() + 2, from_hub.begin(), from_hub.end());  // after -m and -md
  return group;
}

void take_model(CommandLine& line) {
  line.num_positionals = 1;
  line.takes_positional = names_model;
}

void name_model(GeneratorOptions& options, const Positionals& positionals) {
  if (positionals.empty()) return;
  const std::string& name = positionals.front();
  if (!options.target.empty()) throw UsageError("give one model: " + name + " or " + options.target);
  options.target = is_file(name) ? name : hub_name(name).text();
}

Group sampling_group(Request& request) { return group_of(request_options(), "Sampling", request); }

Group constraint_group(Request& request) {
  Group group = group_of(request_options(), "Constraints", request);
  const auto from_file = [](std::vector<std::string> names, const std::string& what, std::optional<std::string>& text) {
    return Option{std::move(names), "FILE", "the same, with the " + what + " of a file",
                  [&text](const std::string& path) { text = read_file(path); }};
  };
  group.options.push_back(from_file({"--grammar-file"}, "grammar", request.grammar));
  group.options.push_back(from_file({"-jf", "--json-schema-file"}, "schema", request.json_schema));
  return group;
}

Option predict_option(Request& request, int low, const std::string& help) {
  RequestOption row = *option::find(request_options(), "max_tokens");
  row.type = option::Whole{whole_numbers(low, std::numeric_limits<int>::max())};
  if (!help.empty()) row.flags.help = help;
  return option_of(row, request);
}

Option stop_option(Request& request, const std::string& help) {
  RequestOption row = *option::find(request_options(), "stop");
  if (!help.empty()) row.flags.help = help;
  return option_of(row, request);
}

Option parallel_option(GeneratorOptions& options, const std::string& help) {
  GeneratorOption row = *option::find(generator_options(), "max_sequences");
  if (!help.empty()) row.flags.help = help;
  return option_of(row, options);
}

Option color_option(std::string& mode) {
  Option option =
      choice({"-co", "--color"}, {"on", "off", "auto", "always", "never"}, mode,
             "show accepted drafts in green, copies of text in cyan; auto: on a terminal; without a value: on");
  option.flags.placeholder = "on|off|auto";
  option.set = [&mode](const option::Value& value) {
    const auto& text = std::get<std::string>(value);
    mode = text == "always" ? "on" : text == "never" ? "off" : text;
  };
  option.alone = "on";
  return option;
}

void choose_draft(GeneratorOptions& options) {
  if (options.num_draft_tokens == 0) {
    options.draft = NoDraft();
    options.draft_corpus.clear();
  } else if (!has_draft(options.draft)) {
    options.draft = AutomaticDraft{false};
  }
  options.download = local_model;
}

void resolve_models(GeneratorOptions& options) {
  if (options.target.empty()) {
    const ModelPair pair = find_bundled_pair(model_folders());
    options.target = pair.target;
    const bool is_automatic = std::holds_alternative<AutomaticDraft>(options.draft);
    if (!has_draft(options.draft) || is_automatic) options.draft = DraftModel{pair.draft};
  }
  choose_draft(options);
  options.progress = load_progress();
  options.target = local_target(options.target);
  if (const std::string* path = draft_path(options.draft)) options.draft = DraftModel{local_model(*path)};
  if (!options.use_mmap && !has_huge_pages())
    note("note: huge pages are not available here, so --no-mmap makes passes no faster\n");
}

void show_notes(const Generator& generator) {
  if (!generator.models().placement().empty()) tell("note: " + generator.models().placement());
  if (!generator.models().plan().draft_choice.empty()) tell("note: " + generator.models().plan().draft_choice);
  for (const std::string& text : generator.models().notes()) tell("note: " + text);
}

void note_missing_template(const Generator& generator) {
  if (!generator.chat().has_template())
    tell("note: the model has no chat template; messages are joined as plain text (--chat-template)");
}

void fix_seed(Request& request) {
  if (!request.seed) request.seed = std::random_device()();
}

std::string with_flag(const ArgumentError& error) {
  const std::string message = error.what();
  const auto flags_of = [&](const auto& table) {
    const auto* row = option::find(table, error.name());
    return row == nullptr || row->flags.names.empty() ? std::string() : row->flags.names.back();
  };
  std::string flag = flags_of(generator_options());
  if (flag.empty()) flag = flags_of(request_options());
  const bool begins_with_name = message.compare(0, error.name().size(), error.name()) == 0;
  return flag.empty() || !begins_with_name ? message : flag + message.substr(error.name().size());
}

std::string with_remedy(const ContextFull& error) {
  return std::string(error.what()) + "; shorten the prompt or ask for a longer context (-c)";
}

}  // namespace specdec::cli
