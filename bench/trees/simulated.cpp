// Chains and trees of drafts in simulated time. A real pair decodes real prompts, but the rule that chooses the drafts
// is told what passes would cost on other machines, so the result has no noise of this one.
//
//   bench_trees TARGET DRAFT TOKENS TEMPERATURE SEED VERIFICATION COPIES KNOWLEDGE WORLDS PROMPT_FILE...
//
// VERIFICATION: block, token or invariant. COPIES: none, text, or repeat: each prompt runs twice, and what is printed
// is of the second time, when its earlier output may be copied. KNOWLEDGE: none, or earlier: all prompts run once
// before, with another seed, and what "auto" learns stays. WORLDS: "disk,memory". Prompts are in their template.
//
// Prints for each prompt, world and way to draft: tokens a pass, and tokens per simulated second.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "engine/loaded_models.h"
#include "engine/request.h"
#include "sampling/uniforms.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/decoder.h"

namespace {

using namespace specdec;

// Seconds of passes over n tokens: first + more * (n - 1), and past 8 tokens jump + steeper * (n - 8) in addition.
struct Cost {
  double first, more, jump = 0.0, steeper = 0.0;
  double seconds(int n) const { return first + more * (n - 1) + (n > 8 ? jump + steeper * (n - 8) : 0.0); }
};

struct World {
  const char* name;
  Cost target, draft;
  bool is_read_from_disk;
};

const World worlds[] = {
    {"disk", {0.204, 0.004}, {0.010, 0.001}, true},                     // 1.5B in 1,050 MB, with a draft of 0.5B
    {"14b", {0.630, 0.030}, {0.011, 0.002}, false},                     // in memory
    {"4b", {0.092, 0.012}, {0.009, 0.001}, false},                      // likewise
    {"memory", {0.0334, 0.0024}, {0.0080, 0.0005}, false},              // 1.5B
    {"head", {0.075, 0.0035, 0.023, 0.0035}, {0.0021, 0.0002}, false},  // 1.1B in F16 with a drafting head
    {"close", {0.0334, 0.0024}, {0.0128, 0.0008}, false},  // with a draft that takes a third of the target's time
};

struct Way {
  const char* name;
  int size;  // of a tree; 0: chains
  bool adapts;
};
const Way ways[] = {{"chains", 0, false}, {"16", 16, false}, {"auto", max_draft_tokens, true}};

// The rule of "auto" with a world's times instead of measured ones, up to 10 % longer.
class Simulated final : public DraftLength {
 public:
  Simulated(const World& world, const AutoOptions& options) : world_(world), rule_(options) {
    if (world.is_read_from_disk) rule_.expect(world.target.first, world.draft.first);
  }
  double seconds = 0.0;  // undisturbed

  void begin_cycle(int num_sequences) override {
    drafting_ = 0.0;
    rule_.begin_cycle(num_sequences);
  }
  void record_draft_pass(int num_rows, int num_tokens, double) override {
    const double pass = world_.draft.seconds(num_tokens);
    drafting_ += pass;
    rule_.record_draft_pass(num_rows, num_tokens, pass * disturbance());
  }
  void end_cycle(int num_scored, int num_made, double, double) override {
    const double pass = world_.target.seconds(num_scored);
    seconds += pass + drafting_;
    rule_.end_cycle(num_scored, num_made, pass * disturbance() + drafting_, drafting_);
  }

  int longest_draft() const override { return rule_.longest_draft(); }
  int worth_copying(Sequence& s, const std::vector<Copy>& copies, int num_unread) override {
    return rule_.worth_copying(s, copies, num_unread);
  }
  bool worth_a_certain_draft(Sequence& s) override { return rule_.worth_a_certain_draft(s); }
  bool worth_a_row(const Sequence& s, int num_unread) override { return rule_.worth_a_row(s, num_unread); }
  bool worth_a_draft(const Sequence& s, double confidence) override { return rule_.worth_a_draft(s, confidence); }
  bool worth_a_tree(const Sequence& s, int num_unread, bool fills_blocks) override {
    return rule_.worth_a_tree(s, num_unread, fills_blocks);
  }
  void begin_tree() override { rule_.begin_tree(); }
  void judged(DraftOrigin origin, const DraftPlan::Confidence& confidence, bool accepted) override {
    rule_.judged(origin, confidence, accepted);
  }
  int best_number_of_copies(const Sequence& s, const std::vector<Copy>& copies, int num_unread) const override {
    return rule_.best_number_of_copies(s, copies, num_unread);
  }
  double probability_of(const Copy& copy) const override { return rule_.probability_of(copy); }
  int largest_tree() const override { return rule_.largest_tree(); }
  DraftPrice price_of_drafts(const GrowingTree& tree, std::vector<double>& next) const override {
    return rule_.price_of_drafts(tree, next);
  }
  double typical_acceptance() const override { return rule_.typical_acceptance(); }
  double worth_of_draft_pass(const GrowingTree& tree, int num_nodes) const override {
    return rule_.worth_of_draft_pass(tree, num_nodes);
  }
  double worth_of(double time, const GrowingTree& tree) const override { return rule_.worth_of(time, tree); }
  void drafted(Sequence& s, DraftPlan::Confidence confidence) override { rule_.drafted(s, confidence); }
  void observe(const Sequence& s, int num_accepted, Token token) override { rule_.observe(s, num_accepted, token); }

 private:
  double disturbance() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return 1.0 + 0.1 * static_cast<double>(state_ >> 40) / (1 << 24);
  }

  const World& world_;
  double drafting_ = 0.0;  // seconds of the running cycle
  std::uint64_t state_ = 1;
  AdaptiveDraftLength rule_;
};

AutoOptions options_in(const World& world) {
  AutoOptions options;
  if (!world.is_read_from_disk) return options;
  options.costs.tokens_per_reading *= 8;
  options.longest_tried = 32;
  options.leap = 8;
  return options;
}

// A pair and all that "auto" has learnt of it.
struct Learning {
  Learning(const GeneratorOptions& options, const World& world)
      : models(load_models(options, nullptr)), rule(world, options_in(world)) {}
  LoadedModels models;
  Simulated rule;
};

struct Run {
  int num_tokens;
  double temperature;
  std::uint64_t seed;
  Verification verification;
  bool is_remembered;  // later runs may copy the output
};

// Tokens a pass, and tokens per simulated second.
struct Speed {
  double per_pass, rate;
};
Speed decode(Learning& learning, const std::vector<Token>& prompt, const Run& run, const Way& way) {
  LoadedModels& models = learning.models;
  Simulated& rule = learning.rule;
  sampling::SamplingParams params;
  params.temperature = run.temperature;
  rule.seconds = 0.0;
  Decoder decoder(models.target(), models.proposer(), &rule);
  Sequence s(0, params, std::make_unique<sampling::PhiloxUniforms>(run.seed, 0));
  s.tokens = prompt;
  s.num_committed = static_cast<int>(prompt.size());
  s.stats.prompt_tokens = s.num_committed;
  s.remaining = run.num_tokens;
  s.num_draft_tokens = auto_draft_tokens;
  s.max_tree_size = way.size;
  s.verification = run.verification;
  s.tree_adapts = way.adapts;
  models.proposer()->truncate(0, 0);
  models.target().truncate(0, 0);
  while (!decoder.prefill(s, 512)) {
  }
  while (s.finish == Finish::none) decoder.cycle({&s});
  if (run.is_remembered)
    models.proposer()->remember(s.tokens.data() + prompt.size(), s.num_committed - static_cast<int>(prompt.size()));
  return {s.stats.tokens_per_target_call(), static_cast<double>(s.stats.tokens) / rule.seconds};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 11) return 2;
  GeneratorOptions options;
  options.target = argv[1];
  options.draft = DraftModel{argv[2]};
  options.n_ctx = 1024;
  const std::string copies = argv[7], knowledge = argv[8];
  const std::string wanted = "," + std::string(argv[9]) + ",";
  options.suffix = copies != "none";
  const Run run{std::atoi(argv[3]), std::atof(argv[4]), std::strtoull(argv[5], nullptr, 10),
                verification_named(argv[6]).value_or(Verification::block), copies == "repeat"};
  Run before = run;
  before.seed += 1000;
  for (const World& world : worlds) {
    if (wanted.find("," + std::string(world.name) + ",") == std::string::npos) continue;
    for (const Way& way : ways) {
      std::unique_ptr<Learning> learning;
      const auto begin = [&] { learning = std::make_unique<Learning>(options, world); };
      const auto decode_file = [&](const char* path, const Run& of) {
        std::ifstream file(path);
        const std::string prompt{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        return decode(*learning, learning->models.vocabulary().tokenize(prompt), of, way);
      };
      if (knowledge == "earlier") {
        begin();
        for (int i = 10; i < argc; ++i) decode_file(argv[i], before);
      }
      for (int i = 10; i < argc; ++i) {
        if (knowledge == "none") begin();
        if (copies == "repeat") decode_file(argv[i], run);
        const Speed speed = decode_file(argv[i], run);
        std::printf("%s %s %s %.2f %.3f\n", argv[i], world.name, way.name, speed.per_pass, speed.rate);
        std::fflush(stdout);
      }
    }
  }
  return 0;
}
