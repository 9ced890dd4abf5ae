// Whether a target's weights fit into the memory, by the headers of its models alone.
#include <string>

#include "base/argument.h"
#include "check.h"
#include "engine/model_plan.h"
#include "engine/streaming_plan.h"

namespace {

using namespace specdec;

const std::string target_path = std::string(MODELS) + "stdlib-target-f16.gguf";
const std::string draft_path = std::string(MODELS) + "stdlib-draft-f16.gguf";
constexpr std::uint64_t much = std::uint64_t{1} << 40;

StreamingPlan plan_of(const GeneratorOptions& options, std::uint64_t available, bool with_draft = false,
                      std::uint64_t caches = 0) {
  return plan_streaming(options, caches, 64, GgufFile::read_parts(target_path),
                        with_draft ? GgufFile::read_parts(draft_path) : std::vector<GgufFile>(), options.draft_weights,
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
  CHECK(model_plan(options).draft->parts.front().path == target_path);
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
