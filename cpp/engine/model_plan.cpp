#include "engine/model_plan.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/utf8.h"
#include "engine/placement.h"
#include "llama/rollback.h"
#include "model_file/encoder.h"
#include "platform/memory.h"
#include "streaming/disk_speed.h"

namespace specdec {
namespace {

// How many layers run on devices if no number was given.
struct DefaultLayers {
  int count = 0;
  std::string why;
};

class Planner {
 public:
  Planner(const GeneratorOptions& options, const std::vector<GgufFile>& target, int num_threads, const LeftOut& without)
      : options_(options), num_threads_(num_threads), without_(without) {
    plan_.target.parts = target;
  }

  ModelPlan plan() {
    ResolvedDraft resolved = resolve_draft(options_, plan_.target.parts, !without_.own_head, !without_.found_heads);
    plan_.notes = std::move(resolved.notes);
    plan_.notes.insert(plan_.notes.end(), without_.notes.begin(), without_.notes.end());
    plan_.draft_source = std::move(resolved.source);
    plan_.draft_choice = std::move(resolved.choice);
    plan_.head = std::move(resolved.head);
    plan_.has_found_head_file = resolved.was_chosen && plan_.head.kind != HeadKind::none;
    plan_.projector = find_projector(options_.mmproj, plan_.target.parts.front());
    plan_context(resolved.parts);
    plan_target();
    plan_.rounds_target = can_round_target();
    if (plan_.rounds_target) plan_.memory = memory_of(options_, plan_.context_length, plan_.target.parts, {});
    else if (!resolved.parts.empty()) plan_draft(std::move(resolved.parts));
    plan_.memory.weights += plan_.projector.bytes;
    choose_draft_weights();
    plan_streaming();
    if (resolved.was_chosen && plan_.draft && plan_.streaming.is_needed()) weigh_draft();
    return std::move(plan_);
  }

  // Why a draft that was found is not worth its memory; empty: it is.
  const std::string& objection() const { return objection_; }

 private:
  void note(const std::string& sentence) {
    const bool is_said = std::find(plan_.notes.begin(), plan_.notes.end(), sentence) != plan_.notes.end();
    if (!sentence.empty() && !is_said) plan_.notes.push_back(sentence);  // it may hold for the draft, too
  }

  void plan_context(const std::vector<GgufFile>& draft) {
    const std::vector<GgufFile>& target = plan_.target.parts;
    const bool is_encoder = specdec::is_encoder(target.front().string("general.architecture").value_or(""));
    plan_.context_length = is_encoder ? encoder_context() : options_.n_ctx.value_or(default_context_of(target));
    if (plan_.context_length == 0) plan_.context_length = fitting_context(draft);
    plan_.memory = memory_of(options_, plan_.context_length, target, draft);
    const int trained = trained_context(target);
    if (is_encoder || options_.n_ctx.value_or(0) <= trained) return;
    note("a context of " + std::to_string(*options_.n_ctx) + " tokens is longer than what " +
         printable(options_.target) + " was trained for, " + std::to_string(trained) +
         ": text beyond that is likely to be poor");
  }

  // An encoder may have no positions beyond.
  int encoder_context() {
    const int trained = trained_context(plan_.target.parts), wanted = options_.n_ctx.value_or(trained);
    if (wanted > trained) {
      note("the context is " + std::to_string(trained) + " tokens long: " + printable(options_.target) +
           " cannot read longer texts");
    }
    return wanted > 0 ? std::min(wanted, trained) : trained;
  }

  int fitting_context(const std::vector<GgufFile>& draft) {
    const int trained = trained_context(plan_.target.parts);
    const int length = longest_context(options_, plan_.target.parts, draft, available_memory());
    note("the context is " + std::to_string(length) + " tokens long: " +
         (length == trained ? "all" : "as much as fits into memory of the " + std::to_string(trained)) + " that " +
         printable(options_.target) + " was trained with");
    return length;
  }

  DefaultLayers default_layers() const {
    if (!options_.devices.empty()) return {layers_that_fit, ""};
    if (!without_.failed_device.empty())
      return {0, "the CPU runs all layers, since a device failed: " + without_.failed_device};
    const DefaultPlace place = default_place(num_threads_, options_.exact);
    if (place.why.empty()) return {};
    return {place.is_device ? layers_that_fit : 0, place.why + " (n_gpu_layers, -ngl, chooses otherwise)"};
  }

  void plan_target() {
    PlannedModel& target = plan_.target;
    target.with_head = std::holds_alternative<OwnHead>(plan_.draft_source);
    plan_.has_found_own_head = target.with_head && !std::holds_alternative<OwnHead>(options_.draft);
    target.rpc_servers = options_.rpc_servers;
    if (!options_.rpc_servers.empty() && options_.devices.empty()) {
      const int wanted = options_.n_gpu_layers.value_or(all_layers);
      target.offload.num_layers = wanted == layers_that_fit ? all_layers : wanted;
      return;
    }
    if (!options_.n_gpu_layers) default_layers_ = default_layers();
    plan_.has_default_place = default_layers_.count != 0 && options_.devices.empty();
    const WantedPlace wanted{options_.n_gpu_layers.value_or(default_layers_.count), options_.devices,
                             options_.n_cpu_moe, options_.override_tensor};
    place_on_devices(target, wanted, plan_.context_length, max_logit_rows);
    std::string& text = target.place.text;
    text += (default_layers_.why.empty() || text.empty() ? "" : "; ") + default_layers_.why;
  }

  // Otherwise a copy of it is loaded as a model of its own, with a cache: where its state cannot branch, on devices,
  // and if something is asked for that only such a model has.
  bool can_round_target() const {
    const PlannedModel& target = plan_.target;
    const std::string architecture = target.parts.front().string("general.architecture").value_or("");
    const bool is_asked_for = options_.draft_window || !options_.devices_draft.empty() || options_.n_gpu_layers_draft ||
                              options_.n_cpu_moe_draft > 0 || !options_.override_tensor_draft.empty();
    return std::holds_alternative<SelfCopy>(plan_.draft_source) && rollback_of(architecture) == Rollback::cells &&
           !target.offload.is_used() && target.rpc_servers.empty() && options_.repack && !is_asked_for &&
           !without_.rounded_target;
  }

  void plan_draft(std::vector<GgufFile> parts) {
    PlannedModel& draft = plan_.draft.emplace();
    draft.parts = std::move(parts);
    draft.is_head = plan_.head.kind != HeadKind::none;
    if (!draft.is_head) plan_.draft_window = window_of_draft();
    // With RPC servers the draft runs on this machine: network latency would dominate its short passes.
    const bool names_devices = !options_.devices_draft.empty();
    const std::vector<std::string>& devices = names_devices ? options_.devices_draft : options_.devices;
    const bool is_local = options_.rpc_servers.empty() || names_devices;
    const int as_target =
        !is_local ? 0 : options_.n_gpu_layers.value_or(devices.empty() ? default_layers_.count : layers_that_fit);
    const WantedPlace wanted{options_.n_gpu_layers_draft.value_or(as_target), devices, options_.n_cpu_moe_draft,
                             options_.override_tensor_draft};
    const int context = draft.is_head ? plan_.context_length : std::min(plan_.context_length, default_draft_window);
    place_on_devices(draft, wanted, context, options_.max_sequences);
    const bool is_named = options_.n_gpu_layers_draft.has_value() || names_devices || options_.n_cpu_moe_draft > 0 ||
                          !options_.override_tensor_draft.empty();
    plan_.compares_places_of_draft = !is_named && !draft.is_head && draft.offload.is_used();
  }

  int window_of_draft() const {
    const std::vector<GgufFile>& parts = plan_.draft->parts;
    const int trained = trained_context(parts);
    const int window = draft_window(options_, plan_.context_length, trained);
    if (window <= trained) return window;
    throw WrongValue("draft_window", std::to_string(window),
                     "at most " + std::to_string(trained) + ", the context that the draft " + parts.front().path +
                         " was trained with");
  }

  StreamingPlan streaming_with(const std::string& draft_weights) const {
    const std::uint64_t caches = plan_.memory.caches + plan_.projector.bytes;
    const std::vector<GgufFile>& target = plan_.target.parts;
    if (plan_.rounds_target)
      return plan_streaming_of_self(options_, caches, max_draft_tokens + 1, target, draft_weights, available_memory());
    return specdec::plan_streaming(options_, caches, max_draft_tokens + 1, target,
                                   plan_.draft ? plan_.draft->parts : std::vector<GgufFile>(), draft_weights,
                                   available_memory());
  }

  // A copy of the target in 3 bits has far more drafts accepted than one in 2; but the target needs some memory, too.
  void choose_draft_weights() {
    plan_.draft_weights = options_.draft_weights;
    if (!std::holds_alternative<SelfCopy>(plan_.draft_source) || options_.draft_weights != "auto") return;
    const StreamingPlan plan = streaming_with("3-bit");
    const std::uint64_t least = plan_.rounds_target ? plan.least_for_drafts() + plan.weights / 50 : plan.weights / 10;
    const bool leaves_room = !plan.is_needed() || plan.for_weights() > least;
    plan_.draft_weights = leaves_room ? "3-bit" : "2-bit";
  }

  void plan_streaming() {
    const PlannedModel& target = plan_.target;
    const StreamingPlan plan = streaming_with(plan_.draft_weights);
    if (!plan.is_needed()) return;
    const char* const reason = target.offload.is_used() || !target.rpc_servers.empty() ? "some run on other devices"
                               : !options_.repack                                      ? "repacking is switched off"
                               : !options_.use_mmap                                    ? "the file is not mapped"
                                                                                       : nullptr;
    if (reason == nullptr) plan_.streaming = plan;
    else if (!options_.memory.empty()) note(std::string("weights beyond the memory are not streamed: ") + reason);
  }

  void weigh_draft() {
    const StreamingForecast forecast =
        StreamingForecast::of(plan_.streaming, disk_speed(plan_.target.parts.front().path));
    if (forecast.draft_pays()) return;
    const auto gigabytes = [](std::uint64_t bytes) { return format("%.2f GB", 1e-9 * static_cast<double>(bytes)); };
    objection_ = "drafts are copied from the text (suffix decoding): with " +
                 printable(plan_.draft->parts.front().path) + " in memory a pass would read " +
                 gigabytes(forecast.read_by_a_pass) + " from the disk instead of " +
                 gigabytes(*forecast.read_without_draft);
  }

  void place_on_devices(PlannedModel& model, const WantedPlace& wanted, int context, int most_rows) {
    const auto cells = static_cast<std::uint64_t>(context) * static_cast<std::uint64_t>(options_.max_sequences);
    const int rows = options_.exact ? exact_width : most_rows;
    Placement placed;
    LayerNeed need;
    try {
      model.offload.split = split_of(options_);
      if (wanted.num_layers == 0) return;
      const bool is_local = model.rpc_servers.empty();  // else the split counts the servers' devices, too
      model.offload.overrides = overrides_of(wanted);
      // We compute what a block drafter adds to its rows (llama/block_rows.h).
      if (model.is_head)
        model.offload.overrides.insert(model.offload.overrides.begin(), {"^(markov_|conf|d2t)", nullptr});
      need = layer_need(model.parts, model.offload, cells, parse_kv_type(options_.kv_type), options_.n_batch, rows);
      placed = specdec::place(model.parts, need, wanted.num_layers, wanted.devices,
                              is_local ? model.offload.split : std::vector<float>(), taken_);
      if (is_local) model.offload.split = placed.shares;
    } catch (const std::invalid_argument& unknown) {
      throw Error(unknown.what());
    }
    model.offload.devices = placed.handles();
    model.offload.num_layers = placed.num_layers;
    Place& place = model.place;
    place.text = placed.text;
    for (std::size_t i = 0; i < placed.devices.size(); ++i) {
      const Device& device = placed.devices[i];
      const int layers = placed.division.layers[i];
      taken_[device.handle] += placed.division.bytes[i];
      if (layers == 0) continue;
      place.key += ", " + std::to_string(layers) + " layers on " + device.name + " " + device.description;
      place.devices += (place.devices.empty() ? "" : " and ") + device.name;
    }
    note(placed.note);
    if (placed.devices.empty()) return;
    place.key += overrides_key(wanted, need.num_layers());
    place.key += options_.exact ? ", exact" : ", not exact";
  }

  const GeneratorOptions& options_;
  const int num_threads_;
  const LeftOut& without_;
  DefaultLayers default_layers_;
  BytesOnDevices taken_;  // by what is placed so far
  ModelPlan plan_;
  std::string objection_;
};

}  // namespace

ModelPlan plan_models(const GeneratorOptions& options, const std::vector<GgufFile>& target, int num_threads,
                      const LeftOut& without) {
  Planner planner(options, target, num_threads, without);
  ModelPlan plan = planner.plan();
  if (planner.objection().empty()) return plan;
  GeneratorOptions copying = options;
  copying.draft = SuffixDecoding();
  plan = Planner(copying, target, num_threads, without).plan();
  plan.notes.push_back(planner.objection());
  return plan;
}

}  // namespace specdec
