#include "cli/hub_models.h"

#include <optional>

#include "base/error.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "hub/companions.h"
#include "hub/download.h"
#include "hub/model_name.h"

namespace specdec::cli {

std::string local_model(const std::string& path) {
  if (!is_hub_name(path)) return path;
  ProgressLine line;
  HubCallbacks callbacks;
  callbacks.progress = [&](const HubProgress& progress) {
    return line.goes_on([&] {
      if (progress.file.empty()) return "asking the hub for " + path;
      const double percent = progress.total == 0 ? 100 : 100 * static_cast<double>(progress.done) / static_cast<double>(progress.total);
      return "downloading " + progress.file + format(": %.0f %% of ", percent) + size_text(progress.total);
    });
  };
  callbacks.note = [&](const std::string& sentence) {
    line.clear();
    note("note: " + sentence + "\n");
  };
  return download_model(parse_hub_name(path), callbacks);
}

DraftSource companion_draft(const std::string& target_path) {
  std::string reason = "no small model of this target's family is known (docs/models.md)";
  if (const std::optional<HubName> name = companion_of(target_path)) {
    try {
      const std::string path = local_model(name->text());
      reason = objection_to_companion(path, target_path);
      if (reason.empty()) {
        note("note: the draft is " + name->text() + "\n");
        return DraftModel{path};
      }
      reason = name->text() + " cannot be the draft: " + reason;
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& error) {
      reason = name->text() + " cannot be the draft: " + error.what();
    }
  }
  note("note: drafts are copied from the text (suffix decoding): " + reason + "\n");
  return SuffixDecoding();
}

}  // namespace specdec::cli
