// The sentence about drafts: what it says in each case.

#include "check.h"
#include "engine/drafting_report.h"

namespace {

using namespace specdec;

DraftingOutlook outlook(double speedup) { return {0.04, 5.23, 0.4, 0.55, speedup}; }

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

}  // namespace

TEST(what_is_said) {
  CHECK(drafting_report({false, auto_draft_tokens, {}}) == "off: there is no draft");
  CHECK(starts_with(drafting_report({true, 0, outlook(2.0)}), "off: the number"));
  CHECK(starts_with(drafting_report({true, 5, outlook(0.5)}), "on: up to 5 per target call, as asked"));
  CHECK(starts_with(drafting_report({true, auto_draft_tokens, {}}), "undecided"));
  CHECK(drafting_report({true, auto_draft_tokens, outlook(0.89)}) ==
        "off except for trials: would give at best 0.8 times plain decoding, as a pass over 8 tokens takes 5.2 times "
        "as long as over one, a "
        "draft 0.40 of one, and about 0.55 of drafts are accepted; see docs/performance.md");
  CHECK(starts_with(drafting_report({true, auto_draft_tokens, outlook(1.87)}),
                    "on: should give about 1.8 times plain decoding, as a pass"));
}

TEST(the_outlook_follows_measured_costs) {
  AdaptiveDraftLength rule;
  CHECK(rule.outlook().plain_seconds <= 0.0 && rule.outlook().speedup <= 0.0);
  for (int i = 0; i < 100; ++i) {
    rule.begin_cycle(1);
    rule.end_cycle(1, 1, 0.04, 0.0);
  }
  const DraftingOutlook plain = rule.outlook();
  CHECK_NEAR(plain.plain_seconds, 0.04, 1e-3);
  CHECK(plain.cost_of_8 > 1.0 && plain.acceptance > 0.0 && plain.acceptance < 1.0);
  CHECK(plain.speedup > 0.0 && plain.speedup < 1.0 / (1.0 - plain.acceptance));
  for (int i = 0; i < 100; ++i) {
    rule.begin_cycle(1);
    rule.end_cycle(i % 2 == 0 ? 8 : 1, 1, i % 2 == 0 ? 0.208 : 0.04, 0.0);
  }
  const DraftingOutlook dear = rule.outlook();
  CHECK_NEAR(dear.cost_of_8, 5.2, 0.3);
  CHECK(dear.speedup < plain.speedup);
}

TEST_MAIN()
