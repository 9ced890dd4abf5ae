// A base class for DraftLength rules that learn nothing.
#pragma once

#include "speculative/draft_length.h"

namespace toy {

class DraftRule : public specdec::DraftLength {
 public:
  void begin_cycle(int) override {}
  void drafted(specdec::Sequence&, double, double) override {}
  void withheld(specdec::Sequence&, double, specdec::Token) override {}
  void record_draft_pass(int, double) override {}
  void observe(const specdec::Sequence&, int, specdec::Token) override {}
  void end_cycle(int, int, double, double) override {}
};

}  // namespace toy
