#include "cli/hub_models.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/suggestion.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "hub/companions.h"
#include "hub/download.h"
#include "hub/model_name.h"

namespace specdec::cli {

namespace {

std::string downloaded(const std::string& path, bool with_projector) {
  if (!is_hub_name(path)) return path;
  ProgressLine line;
  HubCallbacks callbacks;
  callbacks.progress = [&](const HubProgress& progress) {
    return line.goes_on([&] {
      if (progress.file.empty()) return "asking the hub for " + path;
      const double percent =
          progress.total == 0 ? 100 : 100 * static_cast<double>(progress.done) / static_cast<double>(progress.total);
      return "downloading " + progress.file + format(": %.0f %% of ", percent) + size_text(progress.total);
    });
  };
  callbacks.note = [&](const std::string& sentence) {
    line.clear();
    note("note: " + sentence + "\n");
  };
  return download_model(parse_hub_name(path), callbacks, with_projector);
}

}  // namespace

std::string local_model(const std::string& path) { return downloaded(path, false); }
std::string local_target(const std::string& path) { return downloaded(path, true); }

HubName hub_name(const std::string& text) {
  if (const std::optional<HubName> known = short_name(text)) return *known;
  if (!is_hub_name(text) && text.find('/') == std::string::npos) {
    std::vector<std::string> names;
    for (const auto& [name, model] : short_names()) names.push_back(name);
    throw std::invalid_argument("\"" + text + "\" is neither OWNER/REPO nor a short name (specdec models names)" +
                                suggestion(text, names));
  }
  return parse_hub_name(text);
}

}  // namespace specdec::cli
