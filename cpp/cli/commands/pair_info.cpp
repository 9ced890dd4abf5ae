#include "cli/commands/pair_info.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/terminal/format.h"
#include "engine/memory.h"
#include "hub/draft_gain.h"
#include "model_file/head_file.h"
#include "model_file/kv_cache.h"
#include "platform/memory.h"

namespace specdec::cli {
namespace {

constexpr double acceptances[] = {0.5, usual_acceptance, 0.85};

std::string name_of(const Parts& parts) {
  const std::string name = parts.front().string("general.name").value_or("a model without a name");
  return printable(name) + ", " + size_text(total_file_size(parts));
}

std::string problem(const PairInfo& pair) {
  if (!pair.head_problem.empty()) return pair.head_problem;
  return pair.is_head ? "" : pair.fit.vocabulary_problem;
}

bool pays(const PairInfo& pair) { return pair.is_head || pair.fit.gain(usual_acceptance) >= least_gain; }

std::string verdict(const PairInfo& pair) {
  if (!problem(pair).empty()) return "These do not fit: " + printable(problem(pair));
  const std::string command = "specdec chat -m " + printable(pair.target_path) + " -md " + printable(pair.draft_path);
  return pays(pair) ? "These fit: " + command : "These fit, but the draft would hardly pay: " + pair.fit.prediction();
}

std::string row(const std::string& name, const std::string& text) { return pad(name, 12) + text + "\n"; }

std::string gain_text(const PairInfo& pair) {
  std::string text;
  for (const double acceptance : acceptances) {
    const BestDrafts best = best_drafts(pair.fit.cost(), acceptance);
    text += row(text.empty() ? "gain" : "", format("%.2f times plain decoding with ", best.gain) +
                                                counted(best.count, "draft") +
                                                format(" where %.0f %% are accepted", 100.0 * acceptance) +
                                                (acceptance == usual_acceptance ? ", as usual in a family" : ""));
  }
  return text;
}

std::string memory_text(const PairInfo& pair) {
  std::string text = row("memory", size_text(pair.weights) + " of weights, and with " + counted(pair.context, "token") +
                                       " of context (-c):");
  for (const PairInfo::Caches& caches : pair.caches) {
    const std::uint64_t sum = caches.target + caches.draft;
    text += row("  " + caches.type, size_text(sum) + " (target " + size_text(caches.target) + ", draft " +
                                        size_text(caches.draft) + "): " + size_text(pair.weights + sum) + " in all");
  }
  const std::uint64_t available = available_memory();
  return text + (available == 0 ? "" : row("available", size_text(available)));
}

}  // namespace

PairInfo pair_info(const Parts& target, const Parts& draft, int context) {
  PairInfo pair;
  pair.target_path = target.front().path;
  pair.draft_path = draft.front().path;
  pair.target_name = name_of(target);
  pair.draft_name = name_of(draft);
  pair.target_tokens = vocabulary_size(target.front()).value_or(0);
  pair.draft_tokens = vocabulary_size(draft.front()).value_or(0);
  pair.fit = companion_fit(draft, target);
  pair.is_head = head_file(draft).kind != HeadKind::none;
  if (pair.is_head) {
    try {
      check_head_for(draft, target);
    } catch (const ModelError& error) {
      pair.head_problem = error.what();
    }
  }
  pair.context = context > 0 ? context : default_context_of(target);
  pair.weights = total_file_size(target) + total_file_size(draft);
  GeneratorOptions options;
  for (const KvTypeRow& type : kv_types) {
    options.kv_type = type.name;
    const CacheNeed need = cache_need(options, pair.context, target, draft);
    pair.caches.push_back({type.name, need.target, need.draft});
  }
  return pair;
}

bool fits(const PairInfo& pair) { return problem(pair).empty(); }

std::string pair_text(const PairInfo& pair) {
  std::string text = verdict(pair) + "\n\n" + row("target", pair.target_name) + row("draft", pair.draft_name);
  const bool same_size = pair.target_tokens == pair.draft_tokens;
  if (problem(pair).empty() && !pair.is_head)
    text += row("vocabulary", same_size ? "the same " + counted(pair.target_tokens, "token")
                                        : "the same tokens; the target has " + std::to_string(pair.target_tokens) +
                                              ", the draft " + std::to_string(pair.draft_tokens));
  text += row("a pass", "reads " + size_text(static_cast<std::uint64_t>(pair.fit.target_bytes)) + " of the target, " +
                            size_text(static_cast<std::uint64_t>(pair.fit.draft_bytes)) +
                            format(" of the draft: %.2f of the time", pair.fit.cost()));
  if (problem(pair).empty()) text += gain_text(pair);
  return text + memory_text(pair);
}

std::string pair_json(const PairInfo& pair) {
  nlohmann::ordered_json json = {{"fits", problem(pair).empty()},
                                 {"pays", problem(pair).empty() && pays(pair)},
                                 {"problem", problem(pair)},
                                 {"pass_bytes", {{"target", pair.fit.target_bytes}, {"draft", pair.fit.draft_bytes}}},
                                 {"cost", pair.fit.cost()},
                                 {"gain", nlohmann::ordered_json::array()},
                                 {"context", pair.context},
                                 {"weight_bytes", pair.weights},
                                 {"cache_bytes", nlohmann::ordered_json::object()}};
  for (const double acceptance : acceptances) {
    const BestDrafts best = best_drafts(pair.fit.cost(), acceptance);
    json["gain"].push_back({{"acceptance", acceptance}, {"speedup", best.gain}, {"num_draft_tokens", best.count}});
  }
  for (const PairInfo::Caches& caches : pair.caches)
    json["cache_bytes"][caches.type] = {{"target", caches.target}, {"draft", caches.draft}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace specdec::cli
