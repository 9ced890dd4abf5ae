#include "cli/commands/models.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/hub_models.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "hub/cache.h"
#include "hub/cached_models.h"
#include "hub/companions.h"

namespace specdec::cli {
namespace {

struct ModelsArguments {
  bool json = false;
};

CommandLine command_line(ModelsArguments& arguments) {
  CommandLine line;
  line.command = "specdec models";
  line.arguments = "list | pull NAME... | rm NAME... | names";
  line.about =
      "Lists, downloads and removes models in the cache of the Hugging Face hub, which other programs share "
      "(docs/models.md). A NAME is OWNER/REPO, OWNER/REPO:QUANT, OWNER/REPO/FILE.gguf or a short name; `names` lists "
      "those.";
  line.num_positionals = std::numeric_limits<std::size_t>::max();
  line.first_words = {"list", "pull", "rm", "names"};
  line.groups = {{"Options", {flag({"--json"}, arguments.json, "the list as JSON")}}};
  return line;
}

// The name that -m and -hf accept.
std::string name_of(const CachedModel& model) { return printable(model.name.repository + "/" + model.name.file); }

void list(bool json) {
  const std::vector<CachedModel> models = cached_models();
  if (json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const CachedModel& model : models) {
      all.push_back({{"name", model.name.text()}, {"bytes", model.bytes}, {"path", model.paths.front().string()}});
    }
    return write(all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if (models.empty()) {
    return note("no models in " + printable(hub_cache().string()) +
                "; `specdec models pull NAME` downloads one, `specdec models names` lists short names\n");
  }
  std::string text;
  for (const CachedModel& model : models) text += pad_left(size_text(model.bytes), 9) + "  " + name_of(model) + "\n";
  write(text);
}

void pull(const std::string& name) { write(local_model(hub_name(name).text()) + "\n"); }

// If a repository has several models, the name must say which one.
void remove_one(const std::string& text) {
  const HubName name = hub_name(text);
  const std::vector<CachedModel> models = cached_models(name);
  if (models.empty()) throw Error(text + " is not in the cache; `specdec models list` lists what is");
  if (models.size() > 1) {
    std::string all;
    for (const CachedModel& model : models) all += "\n  " + name_of(model);
    throw Error(text + " has several models in the cache; name one of them:" + all);
  }
  remove(models.front());
  note("removed " + name_of(models.front()) + ", " + size_text(models.front().bytes) + "\n");
}

void list_names() {
  std::string text;
  for (const auto& [name, model] : short_names()) text += pad(name, 22) + model.text().substr(3) + "\n";
  write(text);
}

}  // namespace

CommandLine describe_models() {
  static ModelsArguments arguments;
  return command_line(arguments);
}

int run_models(int argc, const char* const* argv) {
  ModelsArguments arguments;
  const CommandLine line = command_line(arguments);
  std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  std::vector<std::string>& names = *positionals;
  const std::string action = names.empty() ? "list" : names.front();
  if (!names.empty()) names.erase(names.begin());
  const bool takes_names = action == "pull" || action == "rm";
  if (takes_names && names.empty()) throw UsageError(action + " needs the NAME of a model");
  if ((action == "list" || action == "names") && !names.empty()) throw UsageError(action + " takes no NAME");
  if (arguments.json && action != "list") throw UsageError("--json is for list");
  if (action == "list") list(arguments.json);
  else if (action == "names") list_names();
  else if (action == "pull") std::for_each(names.begin(), names.end(), pull);
  else if (action == "rm") std::for_each(names.begin(), names.end(), remove_one);
  else
    throw UsageError("\"" + action + "\" is none of list, pull, rm and names" + suggestion(action, line.first_words));
  return 0;
}

}  // namespace specdec::cli
