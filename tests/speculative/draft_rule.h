// A base class for DraftLength rules that learn nothing.
#pragma once

#include "speculative/draft_length.h"

namespace toy {

class DraftRule : public specdec::DraftLength {
 public:
  void begin_cycle(int) override {}
  int worth_copying(specdec::Sequence&, const std::vector<specdec::Copy>& copies, int) override {
    return static_cast<int>(copies.size());
  }
  void drafted(specdec::Sequence&, specdec::DraftPlan::Confidence) override {}
  void record_draft_pass(int, int, double) override {}
  void observe(const specdec::Sequence&, int, specdec::Token) override {}
  void end_cycle(int, int, double, double) override {}
};

}  // namespace toy
