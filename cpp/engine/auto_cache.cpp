#include "engine/auto_cache.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "disk_cache/checked_file.h"
#include "gguf/fingerprint.h"
#include "platform/user_folder.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char magic[] = "SDAUTOKN";
constexpr std::uint32_t version = 2;
constexpr std::size_t most_files = 200, most_passes = 63, most_kept_rows = 24;

std::string cache_folder() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? "" : folder + "/auto";
}

Json to_json(const AutoKnowledge::Costs& costs) {
  Json passes = Json::array();
  for (const AutoKnowledge::PassCost& pass : costs.passes)
    passes.push_back({pass.tokens, pass.log_seconds, pass.doubt});
  return {{"passes", passes}, {"change", costs.change}, {"noise", costs.noise}};
}

Json to_json(const AutoKnowledge::Drafts& drafts) {
  return {{"by_row", {drafts.by_row.level, drafts.by_row.slope}},
          {"by_draft", {drafts.by_draft.level, drafts.by_draft.slope}},
          {"row_confidences", drafts.row_confidences},
          {"rate", drafts.rate}};
}

// Values are checked when they are read, so that none makes a later computation fail.
double number(const Json& json, double low, double high) {
  const double value = json.get<double>();
  if (!(value >= low && value <= high)) throw UnusableFile("a number is out of range");
  return value;
}

AutoKnowledge::Costs costs_of(const Json& json) {
  AutoKnowledge::Costs costs;
  for (const Json& pass : json.at("passes")) {
    costs.passes.push_back(
        {std::floor(number(pass.at(0), 1.0, 1e6)), number(pass.at(1), -30.0, 10.0), number(pass.at(2), 0.0, 10.0)});
  }
  if (costs.passes.size() > most_passes) throw UnusableFile("too many passes");
  std::sort(costs.passes.begin(), costs.passes.end(), [](const auto& a, const auto& b) { return a.tokens < b.tokens; });
  const auto same = [](const auto& a, const auto& b) { return a.tokens == b.tokens; };
  if (std::adjacent_find(costs.passes.begin(), costs.passes.end(), same) != costs.passes.end())
    throw UnusableFile("a size twice");
  costs.change = number(json.at("change"), 0.0, 1e3);
  costs.noise = number(json.at("noise"), 0.0, 10.0);
  return costs;
}

AutoKnowledge::Acceptance acceptance_of(const Json& json) {
  return {number(json.at(0), -50.0, 50.0), number(json.at(1), -50.0, 50.0)};
}

AutoKnowledge::Drafts drafts_of(const Json& json) {
  AutoKnowledge::Drafts drafts = {acceptance_of(json.at("by_row")), acceptance_of(json.at("by_draft")), {}, 0.0};
  for (const Json& confidence : json.at("row_confidences"))
    drafts.row_confidences.push_back(number(confidence, 0.0, 1.0));
  if (drafts.row_confidences.size() > most_kept_rows) throw UnusableFile("too many rows");
  drafts.rate = number(json.at("rate"), 0.0, 1e3);
  return drafts;
}

void remove_oldest(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files.emplace_back(entry.last_write_time(), entry.path());
  if (files.size() <= most_files) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() - most_files);
  for (const auto& [time, path] : files) fs::remove(path);
}

}  // namespace

AutoCache::AutoCache(std::string key) : key_(std::move(key)), folder_(cache_folder()) {
  Fingerprint hash;
  hash.add(key_.data(), key_.size());
  path_ = folder_ + "/" + hash.text();
}

std::optional<AutoKnowledge> AutoCache::read() const noexcept {
  if (folder_.empty()) return std::nullopt;
  try {
    CheckedFileReader file(path_, magic, version, "what \"auto\" has learnt");
    if (file.field() != key_) return std::nullopt;
    const Json json = Json::parse(file.field());
    return AutoKnowledge{costs_of(json.at("target")),
                         costs_of(json.at("draft")),
                         drafts_of(json.at("model")),
                         drafts_of(json.at("text")),
                         number(json.at("proposing"), 0.0, 1.0),
                         number(json.at("budget"), 0.0, 1e6)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void AutoCache::write(const AutoKnowledge& knowledge) const noexcept {
  if (folder_.empty()) return;
  try {
    fs::create_directories(folder_);
    const Json json = {{"target", to_json(knowledge.target)}, {"draft", to_json(knowledge.draft)},
                       {"model", to_json(knowledge.model)},   {"text", to_json(knowledge.text)},
                       {"proposing", knowledge.proposing},    {"budget", knowledge.budget}};
    CheckedFileWriter file(path_, magic, version);
    file.field(key_);
    file.field(json.dump());
    file.finish();
    remove_oldest(folder_);
  } catch (const std::exception&) {  // a full disk, or a folder that belongs to someone else
  }
}

}  // namespace specdec
