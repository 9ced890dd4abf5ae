// What a Generator will load, as a value (cpp/engine/model_plan.h). Nothing is loaded here.

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "check.h"
#include "engine/model_plan.h"
#include "engine/projector_search.h"
#include "platform/temporary_folder.h"

namespace {

using namespace specdec;

const std::string target_path = std::string(MODELS) + "stdlib-target-f16.gguf";
const std::string draft_path_ = std::string(MODELS) + "stdlib-draft-f16.gguf";

GeneratorOptions options_with(DraftSource draft) {
  GeneratorOptions options;
  options.target = target_path;
  options.draft = std::move(draft);
  options.devices = {"none"};
  return options;
}

ModelPlan plan_of(const GeneratorOptions& options, const LeftOut& without = {}) {
  return plan_models(options, GgufFile::read_parts(options.target), 1, without);
}

}  // namespace

TEST(files_draft_context_and_memory_of_a_pair) {
  GeneratorOptions options = options_with(DraftModel{draft_path_});
  options.n_ctx = 256;
  options.draft_window = 100;
  const ModelPlan plan = plan_of(options);
  CHECK(plan.target.parts.front().path == target_path && plan.draft->parts.front().path == draft_path_);
  CHECK(!plan.target.with_head && !plan.draft->is_head && plan.head.kind == HeadKind::none);
  CHECK(plan.context_length == 256 && plan.draft_window == 100);
  CHECK(!plan.target.offload.is_used() && plan.target.place.key.empty() && plan.target.place.text.empty());
  CHECK(!plan.has_found_own_head && !plan.has_found_head_file && !plan.has_default_place);
  CHECK(!plan.compares_places_of_draft && plan.notes.empty());
  CHECK(!plan.projector.path.empty() && plan.projector.bytes > 0);  // that of the digits
  CHECK(plan.memory.weights ==
        plan.target.parts.front().file_size + plan.draft->parts.front().file_size + plan.projector.bytes);
  CHECK(plan.memory.total() == plan.projector.bytes + memory_need(options).total());
}

TEST(a_plan_without_a_draft_model) {
  for (const DraftSource& source : {DraftSource(PlainDecoding()), DraftSource(NgramLookup()), DraftSource(NoDraft())}) {
    const ModelPlan plan = plan_of(options_with(source));
    CHECK(!plan.draft && plan.draft_window == 0 && plan.context_length == 512);
    CHECK(has_draft(plan.draft_source) == std::holds_alternative<NgramLookup>(source));
  }
}

TEST(a_number_of_layers_is_no_default_place) {
  GeneratorOptions options = options_with(PlainDecoding());
  options.devices.clear();
  options.n_gpu_layers = 0;
  const ModelPlan plan = plan_of(options);
  CHECK(!plan.has_default_place && !plan.target.offload.is_used());
}

TEST(a_head_next_to_the_model_is_chosen_unless_the_network_is_between) {
  GeneratorOptions options = options_with(AutomaticDraft());
  ModelPlan plan = plan_of(options);
  CHECK(plan.has_found_head_file && plan.draft->is_head && plan.head.kind == HeadKind::eagle3);
  LeftOut without;
  without.found_heads = true;
  plan = plan_of(options, without);
  CHECK(!plan.has_found_head_file && !plan.draft->is_head && plan.draft->parts.front().path == draft_path_);
  options.rpc_servers = {"localhost:1"};
  plan = plan_of(options);
  CHECK(!plan.has_found_head_file && !plan.draft->is_head && plan.draft->parts.front().path == draft_path_);
}

TEST(what_cannot_be_as_asked_is_noted) {
  GeneratorOptions options = options_with(PlainDecoding());
  options.n_ctx = 2000;
  const ModelPlan plan = plan_of(options);
  CHECK(plan.context_length == 2000 && plan.notes.size() == 1);
  CHECK(plan.notes.front().find("longer than what") != std::string::npos);
  options.n_ctx = 0;
  CHECK(plan_of(options).context_length == 512 && plan_of(options).notes.front().find("all that") != std::string::npos);
}

TEST(a_window_longer_than_the_drafts_training_is_an_error) {
  GeneratorOptions options = options_with(DraftModel{draft_path_});
  options.draft_window = 5000;
  CHECK_THROWS(plan_of(options), WrongValue, "the context that the draft");
}

TEST(what_is_left_out_says_why) {
  LeftOut without;
  without.own_head = without.found_heads = true;
  without.notes = {"drafts do not come from the model's own head: it is broken"};
  const ModelPlan plan = plan_of(options_with(NoDraft()), without);
  CHECK(!plan.target.with_head && plan.notes == without.notes);
}

// The first picture tells what is wrong with it.
TEST(a_damaged_projector_is_found_if_there_is_no_other) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::filesystem::create_symlink(target_path, path("m.gguf"));
  std::ofstream(path("mmproj-m.gguf")) << "damaged";
  const FoundProjector found = find_projector("auto", GgufFile::read(path("m.gguf")));
  CHECK(found.path == path("mmproj-m.gguf") && found.bytes == 7);
  std::filesystem::copy_file(std::string(MODELS) + "stdlib-digits-mmproj-f16.gguf", path("mmproj-n.gguf"));
  CHECK(find_projector("auto", GgufFile::read(path("m.gguf"))).path == path("mmproj-n.gguf"));
}

TEST_MAIN()
