// The models of a Generator, loaded and ready to run: target, draft, their caches, and the proposer over them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/argument.h"
#include "engine/generator_options.h"
#include "engine/model_plan.h"
#include "engine/picture_reader.h"
#include "llama/context.h"
#include "llama/head_context.h"
#include "llama/model.h"
#include "llama/self_draft.h"
#include "speculative/corpus_index.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/proposer.h"
#include "speculative/target_of_head.h"

namespace specdec {

class LoadedModels {
 public:
  // Builds what is planned. stage: what is being built, also after an exception. Throws ModelError, VocabularyMismatch,
  // Cancelled.
  enum class Stage { target, contexts, weights };
  LoadedModels(const GeneratorOptions& options, const ModelPlan& plan, std::shared_ptr<ThreadPool> threads,
               Stage& stage);
  LoadedModels(const LoadedModels&) = delete;
  LoadedModels& operator=(const LoadedModels&) = delete;

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
    if (self_draft_) return self_draft_.get();
    return drafts_.empty() ? nullptr : drafts_.front().get();
  }
  std::uint64_t bytes_of_draft_pass() const;  // that it reads from memory; 0: unknown

  PictureReader::Options picture_options() const;
  const ModelPlan& plan() const { return plan_; }
  const Place& place_of_target() const { return plan_.target.place; }
  const Place& place_of_draft() const { return draft_place_; }
  // Both as a sentence; empty: nothing was asked for.
  std::string placement() const;
  const std::vector<std::string>& notes() const { return notes_; }
  const std::shared_ptr<ThreadPool>& threads() const { return threads_; }
  Range token_ids() const { return whole_numbers(0, target_->vocabulary_size() - 1); }
  int n_ctx() const { return target_->context_length(); }

  // Asked regularly while a pass runs, on the thread that runs it; true makes the pass throw Cancelled.
  void set_cancel_check(const std::function<bool()>& cancelled);

 private:
  Model::Options model_options(const PlannedModel& planned) const;
  void load_draft_model();
  void make_target_context();
  void make_proposer();
  std::unique_ptr<Context> make_draft_context(const std::shared_ptr<const Model>& model) const;
  void make_head_context(const std::shared_ptr<const Model>& model);
  void make_block_context();
  std::shared_ptr<const CorpusIndex> load_corpus();
  void draft_from(DraftModelProposer model);
  void repack();
  void repack_target();
  TileWeights weights_of_copies() const;
  void stream_target();
  void choose_place_of_draft();
  double seconds_of_pass(Context& draft) const;
  void note(const std::string& sentence);
  void note_weights_without_kernels(const Model& model);

  const GeneratorOptions& options_;
  const ModelPlan plan_;
  std::vector<std::string> notes_;
  Place draft_place_;                      // as planned, or the CPU if that is faster
  std::shared_ptr<TileCache> tile_cache_;  // null: none
  std::shared_ptr<Model> target_model_, draft_model_;
  std::shared_ptr<ThreadPool> threads_;
  std::unique_ptr<Context> target_;
  std::vector<std::unique_ptr<Context>> drafts_;
  HeadTarget* head_target_ = nullptr;  // the target's context if a head drafts
  std::unique_ptr<HeadModel> head_;
  std::unique_ptr<SelfDraft> self_draft_;  // the target with rounded weights
  std::shared_ptr<const CorpusIndex> corpus_;
  std::unique_ptr<Proposer> proposer_;
};

// Plans and builds. If what was found rather than asked for cannot be built, another plan does without it: the target's
// own head, a head in a file, a device. The options must outlive the models. threads: null: new ones. Throws
// std::invalid_argument, ModelError, VocabularyMismatch or Cancelled.
LoadedModels load_models(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads);

}  // namespace specdec
