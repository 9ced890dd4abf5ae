// What a Generator will load, decided from the headers of its files and from the devices at hand, before anything takes
// memory: which files, which draft, where each model's layers run, how long the context is. engine/loaded_models.h
// builds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "engine/memory.h"
#include "engine/projector_search.h"
#include "engine/resolved_draft.h"
#include "engine/streaming_plan.h"
#include "gguf/gguf_file.h"
#include "llama/offload.h"

namespace specdec {

// Where a model's layers run.
struct Place {
  std::string key;      // a part of keys; empty: on the CPU
  std::string text;     // as a sentence; empty: nothing was asked for
  std::string devices;  // names; empty: on the CPU
};

struct PlannedModel {
  std::vector<GgufFile> parts;           // headers
  Offload offload;                       // to devices of this machine, and to
  std::vector<std::string> rpc_servers;  // which come first
  bool with_head = false;                // also the drafting head in a target's file
  bool is_head = false;                  // the file holds only a drafting head
  Place place;
};

// What a plan does without, after it could not be built.
struct LeftOut {
  bool own_head = false;           // the target's, if it was not asked for
  bool rounded_target = false;     // a copy of the target is loaded as a model of its own
  bool found_heads = false;        // heads in files that "auto" found
  std::string failed_device;       // why the CPU runs all layers; empty: it need not
  std::vector<std::string> notes;  // sentences for the user
};

struct ModelPlan {
  PlannedModel target;
  std::optional<PlannedModel> draft;  // a draft model, or a drafting head with a file of its own
  DraftSource draft_source;           // never AutomaticDraft or PlainDecoding
  HeadFile head;                      // describes the draft's file if it holds only a drafting head
  std::string draft_choice;           // a sentence about what "auto" chose; empty: nothing to say
  std::string draft_weights;          // options.draft_weights, or what is chosen for a copy of the target
  bool rounds_target = false;         // the target drafts for itself (llama/self_draft.h)
  int context_length = 0;             // tokens of each sequence
  int draft_window = 0;               // tokens that a draft model reads at most; 0: there is none
  MemoryNeed memory;                  // on all devices together
  StreamingPlan streaming;            // is_needed(): weights of the target are read from the disk in every pass
  std::vector<std::string> notes;     // about what cannot be done as asked
  FoundProjector projector;           // for pictures

  // What may be left out if building fails.
  bool has_found_own_head = false, has_found_head_file = false, has_default_place = false;
  // The draft is also tried on the CPU, since its place on a device was not named.
  bool compares_places_of_draft = false;
};

// target: headers. num_threads: of the CPU, which is compared with a device. Throws what resolve_draft() throws,
// ModelError if the layers that were asked for do not fit on a device, Error for devices that do not exist.
ModelPlan plan_models(const GeneratorOptions& options, const std::vector<GgufFile>& target, int num_threads,
                      const LeftOut& without = {});

}  // namespace specdec
