#include "engine/companion_search.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "hub/cached_models.h"
#include "hub/companions.h"
#include "hub/draft_gain.h"
#include "model_file/head_file.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_candidates = 64;  // whose headers are read, which takes milliseconds each

struct Candidate {
  fs::path path;
  std::uint64_t bytes;
  const char* place;
};

std::vector<Candidate> candidates_for(const std::vector<GgufFile>& target) {
  std::vector<Candidate> all;
  std::error_code error;
  const fs::path folder = fs::absolute(target.front().path, error).parent_path();
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  for (const std::string& name : models_among(names)) {
    try {
      std::uint64_t bytes = 0;
      for (const std::string& part : choose_model_files({"", "", name}, names)) bytes += fs::file_size(folder / part);
      all.push_back({folder / name, bytes, "next to the model"});
    } catch (const ModelError&) {            // parts are missing
    } catch (const fs::filesystem_error&) {  // removed meanwhile
    }
  }
  for (const CachedModel& model : cached_models())
    all.push_back({model.paths.front(), model.bytes, "in the hub's cache"});
  const std::uint64_t target_bytes = total_file_size(target);
  const auto is_too_large = [&](const Candidate& one) { return one.bytes >= target_bytes; };
  all.erase(std::remove_if(all.begin(), all.end(), is_too_large), all.end());
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; });
  if (all.size() > most_candidates) all.erase(all.begin() + most_candidates, all.end());
  return all;
}

}  // namespace

std::optional<FoundCompanion> find_companion(const std::vector<GgufFile>& target) {
  std::optional<FoundCompanion> best;
  double best_gain = 0.0;
  for (const Candidate& candidate : candidates_for(target)) {
    try {
      std::vector<GgufFile> parts = GgufFile::read_parts(candidate.path.string());
      if (head_file(parts).kind != HeadKind::none) continue;
      const CompanionFit fit = companion_fit(parts, target);
      const double gain = fit.gain(usual_acceptance);
      if (!fit.objection().empty() || gain <= best_gain) continue;
      best_gain = gain;
      best = {candidate.path.string(), std::move(parts),
              std::string("found ") + candidate.place + ": " + fit.prediction()};
    } catch (const Error&) {  // not a model, or a damaged one
      continue;
    }
  }
  return best;
}

}  // namespace specdec
