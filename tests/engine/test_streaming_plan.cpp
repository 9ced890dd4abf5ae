// Whether a target's weights fit into the memory, by the headers of its models alone.
#include <string>
#include <variant>

#include "base/argument.h"
#include "check.h"
#include "engine/model_plan.h"
#include "engine/streaming_plan.h"

namespace {

using namespace specdec;

const std::string target_path = std::string(MODELS) + "stdlib-target-f16.gguf";
const std::string small_path = std::string(MODELS) + "stdlib-draft-f16.gguf";
constexpr std::uint64_t much = std::uint64_t{1} << 40;

StreamingPlan plan_of(const GeneratorOptions& options, std::uint64_t available, bool with_draft = false,
                      std::uint64_t caches = 0) {
  return plan_streaming(options, caches, 64, GgufFile::read_parts(target_path),
                        with_draft ? GgufFile::read_parts(small_path) : std::vector<GgufFile>(), options.draft_weights,
                        available);
}

ModelPlan model_plan(const GeneratorOptions& options) {
  return plan_models(options, GgufFile::read_parts(options.target), 1);
}

}  // namespace

TEST(sizes_are_read_as_people_write_them) {
  CHECK(parse_memory("11G") == std::uint64_t{11} << 30 && parse_memory("11GiB") == parse_memory("11G"));
  CHECK(parse_memory("11.5GB") == 11500000000 && parse_memory("800M") == std::uint64_t{800} << 20);
  CHECK(parse_memory("1T") == std::uint64_t{1} << 40 && parse_memory("512K") == 512u << 10);
  CHECK(parse_memory("1000") == 1000 && parse_memory("1000B") == 1000);
  for (const char* wrong : {"", "G", "-1G", "0", "11X", "11 GB!", "1e400", "nan", "11GG", "0.1"})
    CHECK_THROWS(parse_memory(wrong), WrongValue, "a size such as 11G");
}

TEST(weights_are_streamed_if_they_and_all_others_exceed_the_budget) {
  const GeneratorOptions options;
  const StreamingPlan plan = plan_of(options, much);
  CHECK(!plan.is_needed() && plan.weights > (10u << 20) && plan.weights < (20u << 20));
  GeneratorOptions tight;
  tight.memory = std::to_string(plan.weights + plan.others);
  CHECK(!plan_of(tight, much).is_needed());
  CHECK(plan_of(tight, much, true).is_needed());            // a draft takes memory,
  CHECK(plan_of(tight, much, false, 1 << 20).is_needed());  // so do caches
  tight.memory = std::to_string(plan.weights + plan.others - 1);
  CHECK(plan_of(tight, much).is_needed());
  CHECK(plan_of(tight, much).for_weights() == plan.weights - 1);
  tight.memory = "1M";
  CHECK(plan_of(tight, much).is_needed() && plan_of(tight, much).for_weights() == 0);
}

TEST(without_an_option_what_is_available_counts) {
  const GeneratorOptions options;
  CHECK(plan_of(options, 30 << 20).is_needed());
  CHECK(!plan_of(options, 0).is_needed());  // unknown
}

TEST(a_copy_of_the_target_has_as_many_bits_as_leave_it_room) {
  GeneratorOptions options;
  options.target = target_path;
  options.draft = SelfCopy();
  options.devices = {"none"};
  CHECK(model_plan(options).draft_weights == "3-bit" && !model_plan(options).streaming.is_needed());
  std::string seen;  // with less and less memory
  for (int megabytes = 120; megabytes > 60; --megabytes) {
    options.memory = std::to_string(megabytes) + "M";
    const ModelPlan plan = model_plan(options);
    const std::string now = plan.draft_weights + (plan.streaming.is_needed() ? ", streamed; " : "; ");
    if (seen.size() < now.size() || seen.compare(seen.size() - now.size(), now.size(), now) != 0) seen += now;
  }
  CHECK(seen == "3-bit; 3-bit, streamed; 2-bit, streamed; ");
  options.draft_weights = "4-bit";
  CHECK(model_plan(options).draft_weights == "4-bit");
}

TEST(a_target_that_drafts_for_itself_has_no_second_model) {
  GeneratorOptions options;
  options.target = target_path;
  options.draft = SelfCopy();
  options.devices = {"none"};
  const ModelPlan plan = model_plan(options);
  CHECK(plan.rounds_target && !plan.draft && plan.draft_window == 0);
  GeneratorOptions alone = options;
  alone.draft = PlainDecoding();
  CHECK(plan.memory.total() == model_plan(alone).memory.total());
  const auto has_model = [&](const auto& change) {
    GeneratorOptions changed = options;
    change(changed);
    const ModelPlan other = model_plan(changed);
    return !other.rounds_target && other.draft && other.draft->parts.front().path == target_path;
  };
  CHECK(has_model([](GeneratorOptions& o) { o.draft_window = 100; }));
  CHECK(has_model([](GeneratorOptions& o) { o.devices_draft = {"none"}; }));
  CHECK(has_model([](GeneratorOptions& o) { o.n_gpu_layers_draft = 0; }));
  CHECK(has_model([](GeneratorOptions& o) { o.repack = false; }));
  LeftOut without;
  without.rounded_target = true;  // it turned out that its state cannot branch
  const ModelPlan second = plan_models(options, GgufFile::read_parts(options.target), 1, without);
  CHECK(!second.rounds_target && second.draft);
}

TEST(a_matrix_that_stays_takes_the_place_of_its_copy) {
  StreamingPlan plan;
  plan.weights = 1100;
  plan.output = 100;
  plan.copies = 400;
  const auto stay = [&](std::uint64_t memory) {
    plan.others = 50;
    plan.budget = 50 + memory;
    return plan.stay();
  };
  CHECK(stay(0) == 0 && stay(60) == 60 && stay(500) == 100);
  CHECK(stay(800) == 600 && stay(1099) >= 1097 && stay(1100) == 1100 && stay(2000) == 1100);
  plan.copies = 0;  // nothing drafts with them
  CHECK(stay(800) == 800);
}

TEST(a_draft_pays_if_its_tokens_outweigh_what_its_memory_displaces) {
  StreamingForecast forecast{1000000000, 800000000, 200000000, false, 1e9, {}};
  CHECK(forecast.draft_pays());  // there is none
  forecast.pass = 1e9;
  forecast.draft_pass = 0.2e9;
  const auto pays = [&](std::uint64_t read, std::uint64_t without) {
    forecast.read_by_a_pass = read;
    forecast.read_without_draft = without;
    return forecast.draft_pays();
  };
  CHECK(pays(200000000, 200000000) && pays(700000000, 500000000));
  CHECK(!pays(600000000, 200000000));
  CHECK(!pays(200000000, 0) && pays(60000000, 0));                 // without it the target fits: a pass takes 50 ms
  forecast.draft_pass = 1e9;                                       // a draft as slow as the target,
  CHECK(!pays(60000000, 50000000) && pays(900000000, 800000000));  // where the disk is not slower still
}

// Of 128 experts a token uses 8, and eight tokens may use half of them.
TEST(drafts_of_a_mixture_read_further_experts) {
  StreamingForecast forecast{10000000000, 5000000000, 0, true, 1e9, {}};
  forecast.pass = 1e9;
  forecast.draft_pass = 0.02e9;
  forecast.read_without_draft = 0;
  const auto pays = [&](double missing, double without, double used) {
    forecast.missing_experts = missing;
    forecast.missing_without_draft = without;
    forecast.used_experts = used;
    return forecast.draft_pays();
  };
  CHECK(pays(5e9, 5e9, 1.0));              // all are used
  CHECK(!pays(5e9, 4.5e9, 8.0 / 128.0));   // each further token reads nearly as much as the first
  CHECK(pays(0.2e9, 0.2e9, 8.0 / 128.0));  // few bytes are read
  CHECK(!pays(2e9, 0.1e9, 8.0 / 128.0));
}

TEST(a_draft_that_was_found_is_left_out_if_it_does_not_pay) {
  GeneratorOptions options;
  options.target = target_path;
  options.devices = {"none"};
  options.n_batch = 8192;  // then a draft needs more memory than the target has weights
  const StreamingPlan alone = plan_of(options, much);
  options.memory = std::to_string(alone.weights + alone.others - 500000);
  options.draft = AutomaticDraft{false};
  const ModelPlan plan = model_plan(options);
  CHECK(!plan.draft && std::holds_alternative<SuffixDecoding>(plan.draft_source) && plan.streaming.is_needed());
  CHECK(plan.streaming.draft == 0);
  CHECK(plan.notes.back().find("a pass would read 0.0") != std::string::npos);
  options.draft = DraftModel{small_path};  // named, so it is used
  CHECK(model_plan(options).draft.has_value());
  options.draft = AutomaticDraft{false};
  options.n_batch = 64;
  const StreamingPlan small = plan_of(options, much);
  options.memory = std::to_string(small.weights / 3 + small.others);
  CHECK(model_plan(options).draft.has_value() && model_plan(options).streaming.is_needed());
}

TEST(a_plan_for_models_streams_where_it_can) {
  GeneratorOptions options;
  options.target = target_path;
  options.draft = PlainDecoding();
  options.devices = {"none"};
  CHECK(!model_plan(options).streaming.is_needed());
  options.memory = "76M";
  CHECK(model_plan(options).streaming.is_needed() && model_plan(options).notes.empty());
  options.repack = false;
  CHECK(!model_plan(options).streaming.is_needed());
  CHECK(model_plan(options).notes.back().find("repacking is switched off") != std::string::npos);
  options.repack = true;
  options.use_mmap = false;
  CHECK(!model_plan(options).streaming.is_needed());
  options.memory = "much";
  CHECK_THROWS(model_plan(options), WrongValue, "memory");
}

TEST_MAIN()
