// The models of a Generator, loaded and ready to run: target, draft, their caches, and the proposer over them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "engine/placement.h"
#include "engine/resolved_draft.h"
#include "llama/context.h"
#include "llama/head_context.h"
#include "llama/model.h"
#include "speculative/corpus_index.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/proposer.h"
#include "speculative/target_of_head.h"

namespace specdec {

class LoadedModels {
 public:
  // Reads each file's header once. The options must outlive it. threads: null: new ones. Throws std::invalid_argument,
  // ModelError, VocabularyMismatch or Cancelled.
  LoadedModels(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads);

  const Model& target_model() const { return *target_model_; }
  std::shared_ptr<const Model> shared_target() const { return target_model_; }
  // Null if there is none or if it is the target's own head.
  const Model* draft_model() const { return draft_model_.get(); }
  Vocabulary vocabulary() const { return target_model_->vocabulary(); }
  Context& target_context() { return *target_; }
  const Context& target_context() const { return *target_; }
  // One context for a draft model, or one for each layer of a head.
  const std::vector<std::unique_ptr<Context>>& draft_contexts() const { return drafts_; }
  HeadModel* head() { return head_.get(); }         // null: the draft, if any, is another model
  Proposer* proposer() { return proposer_.get(); }  // null: no drafts

  // The models as the speculative loop runs them. draft(): a draft model or head; null: there is none.
  LanguageModel& target() { return head_ ? head_->target() : *target_; }
  LanguageModel* draft() {
    if (head_) return head_.get();
    return drafts_.empty() ? nullptr : drafts_.front().get();
  }

  const DraftSource& draft_source() const { return resolved_.source; }
  // A sentence about what "auto" chose; empty: nothing to say.
  const std::string& draft_choice() const { return resolved_.choice; }
  // Which layers of a model run on which devices, as a part of keys; empty: the CPU runs all.
  const std::string& place_of_target() const { return target_place_.key; }
  const std::string& place_of_draft() const { return draft_place_.key; }
  // The same as a sentence; empty: nothing was asked for.
  std::string placement() const {
    return target_place_.text + (target_place_.text.empty() || draft_place_.text.empty() ? "" : "; ") +
           draft_place_.text;
  }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::shared_ptr<ThreadPool>& threads() const { return threads_; }
  int n_ctx() const { return target_->context_length(); }
  int draft_window() const { return draft_window_; }  // tokens that a draft model reads at most; 0: there is none

  // Asked regularly while a pass runs, on the thread that runs it; true makes the pass throw Cancelled.
  void set_cancel_check(const std::function<bool()>& cancelled);

 private:
  // Where a model's layers run.
  struct Place {
    std::string key;      // a part of keys; empty: on the CPU
    std::string text;     // as a sentence; empty: nothing was asked for
    std::string devices;  // names; empty: on the CPU
  };

  void load(const std::vector<GgufFile>& target);
  void unload();
  void unload_contexts();
  Model::Options model_options() const;
  void open_tile_cache();
  int default_layers(std::string& why);
  void load_target(const std::vector<GgufFile>& parts, int context);
  Place place_on_devices(Model::Options& model, const std::vector<GgufFile>& parts, const WantedPlace& wanted,
                         int context, int most_rows);
  int width_of(const Model& model) const;
  void make_contexts(const std::vector<GgufFile>& target, int context_length);
  void make_target_context(int context_length);
  void load_draft();
  void load_draft_model();
  void make_draft_context();
  void choose_place_of_draft();
  double seconds_of_draft_pass();
  void make_head_context(const std::shared_ptr<const Model>& model);
  void make_block_context();
  std::shared_ptr<const CorpusIndex> load_corpus();
  void draft_from(DraftModelProposer model);
  int context_length(const std::vector<GgufFile>& target);
  void repack();
  void note(const std::string& sentence);
  void note_weights_without_kernels(const Model& model);

  const GeneratorOptions& options_;
  ResolvedDraft resolved_;
  std::vector<std::string> notes_;
  Place target_place_, draft_place_;
  int default_layers_ = 0;                 // wanted on devices if no number was given
  std::string failed_device_;              // why the models, by default on a device, are loaded again on the CPU
  BytesOnDevices bytes_on_devices_;        // taken by what was placed so far
  std::shared_ptr<TileCache> tile_cache_;  // null: none
  std::shared_ptr<Model> target_model_, draft_model_;
  std::shared_ptr<ThreadPool> threads_;
  std::unique_ptr<Context> target_;
  std::vector<std::unique_ptr<Context>> drafts_;
  HeadTarget* head_target_ = nullptr;  // the target's context if a head drafts
  std::unique_ptr<HeadModel> head_;
  std::shared_ptr<const CorpusIndex> corpus_;
  std::unique_ptr<Proposer> proposer_;
  int draft_window_ = 0;
};

}  // namespace specdec
