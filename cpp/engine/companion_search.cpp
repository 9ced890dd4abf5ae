#include "engine/companion_search.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "hub/cached_models.h"
#include "hub/companions.h"
#include "hub/draft_gain.h"
#include "model_file/encoder.h"
#include "model_file/head_file.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_candidates = 64;  // reading a header takes milliseconds

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
  for (const std::string& name : models_and_heads_among(names)) {
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

// Heads read the target's hidden rows, so they come first; among them block drafters, which draft everything in one
// pass.
int rank(HeadKind kind) {
  if (kind == HeadKind::none) return 0;
  return kind == HeadKind::block ? 2 : 1;
}

// Encoders, and decoders that were trained to make embeddings and write poor text.
bool makes_embeddings(const GgufFile& model) {
  const std::string architecture = model.string("general.architecture").value_or("");
  return is_encoder(architecture) || model.integer(architecture + ".pooling_type").value_or(0) > 0;
}

}  // namespace

std::string objection_to(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target, bool can_be_head) {
  if (makes_embeddings(draft.front())) return "it is an embedding model";
  if (head_file(draft).kind != HeadKind::none) {
    if (!can_be_head) return "it is a drafting head";
    try {
      check_head_for(draft, target);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return companion_fit(draft, target).objection();
}

std::optional<FoundCompanion> find_companion(const std::vector<GgufFile>& target, bool can_be_head) {
  std::optional<FoundCompanion> best;
  std::pair<int, double> best_worth{-1, 0.0};
  for (const Candidate& candidate : candidates_for(target)) {
    try {
      std::vector<GgufFile> parts = GgufFile::read_parts(candidate.path.string());
      const HeadFile head = head_file(parts);
      const CompanionFit fit = companion_fit(parts, target);
      const std::pair<int, double> worth{rank(head.kind), fit.gain(usual_acceptance)};
      if (worth <= best_worth || !objection_to(parts, target, can_be_head).empty()) continue;
      best_worth = worth;
      best = {candidate.path.string(), std::move(parts),
              std::string("found ") + candidate.place + ": " + fit.prediction()};
    } catch (const Error&) {  // not a model, or a damaged one
      continue;
    }
  }
  return best;
}

}  // namespace specdec
