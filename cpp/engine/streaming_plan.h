// Decides from file headers whether a target's weights fit into memory, and how many bytes of them may stay
// (llama/streamed_weights.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "gguf/gguf_file.h"

namespace specdec {

// All in bytes.
struct StreamingPlan {
  std::uint64_t budget = 0;         // for the whole process: options.memory, or most of what is available; 0: unknown
  std::uint64_t weights = 0;        // of the target
  std::uint64_t experts = 0;        // of these, all experts'
  double used_experts = 1;          // the share of them that a token uses
  std::uint64_t others = 0;         // caches, drafts, scratch memory, the process itself
  std::uint64_t draft = 0;          // of these, a draft model's weights and scratch memory
  std::uint64_t copies = 0;         // of all matrices but the output, with which the target drafts for itself
  std::uint64_t output = 0;         // of the weights, the output matrix, if it stays for these drafts
  double pass = 0, draft_pass = 0;  // that passes of the target and of the draft multiply by (hub/draft_gain.h)
  bool is_needed() const { return budget != 0 && weights + copies + others > budget; }
  // What drafts of the target itself need in any case.
  std::uint64_t least_for_drafts() const { return output + copies; }
  std::uint64_t for_weights() const { return budget > others ? budget - others : 0; }  // and for copies
  // Of the weights, as far as whole matrices are in memory and need no copies.
  std::uint64_t stay() const;
};

// caches: bytes. rows: of logits in a pass of the target. draft: empty if there is none. draft_weights: as
// options.draft_weights. available: bytes of memory.
// Throws WrongValue for options.memory.
StreamingPlan plan_streaming(const GeneratorOptions& options, std::uint64_t caches, int rows,
                             const std::vector<GgufFile>& target, const std::vector<GgufFile>& draft,
                             const std::string& draft_weights, std::uint64_t available);

// The same if the target drafts for itself, with copies of those of its matrices that do not stay
// (llama/rounded_weights.h).
StreamingPlan plan_streaming_of_self(const GeneratorOptions& options, std::uint64_t caches, int rows,
                                     const std::vector<GgufFile>& target, const std::string& draft_weights,
                                     std::uint64_t available);

// What a pass will read from the disk.
struct StreamingForecast {
  std::uint64_t weights, stay;   // bytes
  std::uint64_t read_by_a_pass;  // bytes, without experts
  bool reads_experts;
  double bytes_per_second;
  // Bytes that a pass would read if the memory of the draft were the target's; nullopt: there is no draft.
  std::optional<std::uint64_t> read_without_draft;
  double pass = 0, draft_pass = 0;  // as in the plan
  // Of experts, those that a pass may have to read, with the draft and without: as if all were used alike, so that no
  // choice of those that stay is better than another.
  double missing_experts = 0, missing_without_draft = 0;  // bytes
  double used_experts = 1;                                // as in the plan

  // By the plan alone; of a plan that needs streaming.
  static StreamingForecast of(const StreamingPlan& plan, double bytes_per_second);
  // Whether drafts are predicted to gain more than their model's memory would; true if there is none. A draft often
  // uses other experts than the token before it.
  bool draft_pays() const;
  // "of 18.50 GB of weights, 11.20 GB stay; every pass reads 7.30 GB from the disk at 3.10 GB/s, about 2.4 s; ..."
  std::string text() const;
};

// "11G" or "11GiB": 2^30 bytes each, "800M", "512K"; "11GB": 10^9 bytes each; without a unit: bytes. Throws WrongValue.
std::uint64_t parse_memory(const std::string& size);

}  // namespace specdec
