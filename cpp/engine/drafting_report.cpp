#include "engine/drafting_report.h"

#include <cmath>

#include "base/format.h"
#include "speculative/sequence.h"

namespace specdec {
namespace {

std::string number(double value, int digits) { return format("%.*f", digits, value); }

// Rounds down, so that rounding alone never reports a gain.
std::string times(double factor) { return number(std::floor(factor * 10.0) / 10.0, 1); }

std::string costs(const DraftingOutlook& outlook) {
  std::string text = "a pass over 8 tokens takes " + number(outlook.cost_of_8, 1) + " times as long as over one";
  if (outlook.cost_of_draft > 0.0) text += ", a draft " + number(outlook.cost_of_draft, 2) + " of one";
  return text;
}

}  // namespace

std::string drafting_report(const DraftingState& state) {
  if (!state.has_draft) return "off: there is no draft";
  if (state.num_draft_tokens == 0) return "off: the number of draft tokens is 0";
  if (state.num_draft_tokens > 0) {
    return "on: up to " + std::to_string(state.num_draft_tokens) +
           " per target call, as asked, whether they pay or not";
  }
  const DraftingOutlook& outlook = state.outlook;
  if (outlook.plain_seconds <= 0.0 || outlook.speedup <= 0.0) return "undecided: too little is measured yet";
  const std::string speed = times(outlook.speedup) + " times plain decoding";
  const std::string why = costs(outlook) + ", and about " + number(outlook.acceptance, 2) + " of drafts are accepted";
  if (outlook.speedup > 1.0) return "on: should give about " + speed + ", as " + why;
  return "off except for trials: would give at best " + speed + ", as " + why + "; see docs/performance.md";
}

}  // namespace specdec
