#include "engine/resolved_draft.h"

#include <filesystem>
#include <optional>
#include <variant>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/companion_search.h"
#include "hub/companions.h"
#include "model_file/encoder.h"
#include "model_file/own_head.h"

namespace specdec {
namespace {

template <class Source>
bool is(const DraftSource& source) {
  return std::holds_alternative<Source>(source);
}

std::string architecture(const std::vector<GgufFile>& model) {
  return model.front().string("general.architecture").value_or("");
}

// Downloads a companion of the target's family from the hub. Returns false, with the reason, if it cannot be the draft.
bool download_companion(const GeneratorOptions& options, const HubName& name, const std::vector<GgufFile>& target,
                        bool can_be_head, ResolvedDraft& draft, std::string& reason) {
  try {
    const std::string path = options.download(name.text());
    draft.parts = GgufFile::read_parts(path);
    reason = objection_to(draft.parts, target, can_be_head);
    if (reason.empty()) {
      draft.source = DraftModel{path};
      draft.choice = "the draft is " + name.text();
      return true;
    }
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    reason = error.what();
  }
  draft.parts.clear();
  reason = name.text() + " cannot be the draft: " + reason;
  return false;
}

// Chooses a draft on this machine, one from the hub, or suffix decoding.
void choose_companion(const GeneratorOptions& options, bool downloads, const std::vector<GgufFile>& target,
                      bool can_be_head, ResolvedDraft& draft) {
  draft.was_chosen = true;
  if (std::optional<FoundCompanion> found = find_companion(target, can_be_head)) {
    draft.source = DraftModel{found->path};
    draft.choice =
        "the draft is " + printable(std::filesystem::path(found->path).filename().string()) + ", " + found->reason;
    draft.parts = std::move(found->parts);
    return;
  }
  const std::vector<HubName> names = companions_of(target);
  std::string reason = "no small model of this target's family is known (docs/models.md)";
  if (downloads && options.download) {
    for (const HubName& name : names) {
      if (download_companion(options, name, target, can_be_head, draft, reason)) return;
    }
  }
  draft.source = SuffixDecoding();
  if (!downloads) {
    reason = "no drafting head and no smaller model with this vocabulary is next to it or in the hub's cache";
    if (!names.empty()) reason += "; draft \"auto\" (--draft auto) downloads " + names.front().text();
  }
  if (options.download || !downloads)
    draft.notes.push_back("drafts are copied from the text (suffix decoding): " + reason);
}

// A corpus can be used only with suffix decoding.
void check_corpus(const GeneratorOptions& options, const DraftSource& source) {
  if (options.draft_corpus.empty() || is<SuffixDecoding>(source)) return;
  const bool has_model = draft_path(source) != nullptr || is<OwnHead>(source) || is<SelfCopy>(source);
  if (has_model && options.suffix) return;
  throw WrongValue("draft_corpus", "\"" + options.draft_corpus + "\"",
                   "used with suffix decoding as the draft, or with a draft model and suffix decoding on");
}

}  // namespace

ResolvedDraft resolve_draft(const GeneratorOptions& options, const std::vector<GgufFile>& target, bool can_use_own_head,
                            bool can_choose_heads) {
  const bool is_remote = !options.rpc_servers.empty();
  const auto reject_remote_head = [&](const std::string& value) {
    if (!is_remote) return;
    throw WrongValue("draft", value,
                     "another kind of draft with RPC servers: each head pass would wait for the network");
  };
  ResolvedDraft draft;
  draft.source = options.draft;
  if (is_encoder(architecture(target))) {
    if (draft_path(options.draft) != nullptr || is<OwnHead>(options.draft) || is<SelfCopy>(options.draft)) {
      throw WrongValue("draft", "\"" + to_text(options.draft) + "\"",
                       "left out: " + options.target + " is an embedding model, which generates no text");
    }
    draft.source = NoDraft();
    return draft;
  }
  if (is<PlainDecoding>(options.draft)) {
    draft.source = NoDraft();
    check_corpus(options, draft.source);
    return draft;
  }
  if (is<OwnHead>(draft.source)) reject_remote_head("\"mtp\"");
  const bool is_open = is<NoDraft>(draft.source) || is<AutomaticDraft>(draft.source);
  if (is_open && options.num_draft_tokens != 0 && !is_remote) {
    const OwnHeadInfo head = own_head(target);
    if (head.is_damaged) {
      draft.notes.push_back("drafts do not come from the model's own head: " + printable(options.target) + ": " +
                            head.problem);
    }
    if (head.problem.empty() && can_use_own_head) draft.source = OwnHead();
  }
  if (const auto* automatic = std::get_if<AutomaticDraft>(&draft.source))
    choose_companion(options, automatic->downloads, target, can_choose_heads && !is_remote, draft);
  check_corpus(options, draft.source);
  if (is<SelfCopy>(draft.source)) draft.parts = target;
  if (const std::string* path = draft_path(draft.source)) {
    if (draft.parts.empty()) draft.parts = GgufFile::read_parts(*path);
    if (is_encoder(architecture(draft.parts)))
      throw ModelError(*path + ": is an embedding model, which generates no text; use a draft of the target's family");
    draft.head = head_file(draft.parts);
    if (draft.head.kind != HeadKind::none) {
      check_head_for(draft.parts, target);
      reject_remote_head("\"" + *path + "\"");
    }
  }
  return draft;
}

}  // namespace specdec
