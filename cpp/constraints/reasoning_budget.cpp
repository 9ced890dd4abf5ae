#include "constraints/reasoning_budget.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

constexpr const char* white_space = " \t\r\n";

class LimitedReasoning final : public sampling::Constraint {
 public:
  LimitedReasoning(std::unique_ptr<sampling::Constraint> other, ReasoningBudget budget, int vocabulary_size,
                   std::function<std::string(Token)> piece)
      : other_(std::move(other)),
        budget_(std::move(budget)),
        vocabulary_size_(vocabulary_size),
        piece_(std::move(piece)) {
    places_.push_back({budget_.is_open ? Part::reasoning : Part::beginning, "", 0, 0});
  }

  int vocabulary_size() const override { return vocabulary_size_; }

  void write_mask(std::uint32_t* words) override {
    const std::size_t size = idx(vocabulary_size_ + 31) / 32;
    if (other_) other_->write_mask(words);
    else std::fill(words, words + size, ~std::uint32_t{0});
    if (!is_over_budget()) return;
    const Token next = next_of_ending();
    const std::uint32_t allowed = words[idx(next) / 32] & (1u << (idx(next) % 32));
    std::fill(words, words + size, 0);
    words[idx(next) / 32] = allowed;
  }

  bool advance(Token token) override {
    if (is_over_budget() && token != next_of_ending()) return false;
    if (other_ && !other_->advance(token)) return false;
    places_.push_back(after(token));
    return true;
  }

  void truncate(int length) override {
    if (other_) other_->truncate(length);
    places_.resize(idx(length) + 1);
  }

 private:
  enum class Part { beginning, reasoning, rest };
  struct Place {
    Part part;
    std::string text;  // the beginning of the output, or the end of the reasoning so far; at most as long as a mark
    int num_tokens;    // of the reasoning
    int num_written;   // tokens of the ending that are written
  };

  bool is_over_budget() const {
    const Place& place = places_.back();
    return place.part == Part::reasoning && (place.num_tokens >= budget_.num_tokens || place.num_written > 0);
  }
  Token next_of_ending() const { return budget_.ending[idx(places_.back().num_written)]; }

  Place after(Token token) const {
    Place place = places_.back();
    if (place.part == Part::rest) return place;
    const bool is_ending = is_over_budget();
    place.text += piece_(token);
    if (place.part == Part::beginning) {
      place.text.erase(0, std::min(place.text.find_first_not_of(white_space), place.text.size()));
      const std::size_t common = std::min(place.text.size(), budget_.begin.size());
      if (place.text.compare(0, common, budget_.begin, 0, common) != 0) return {Part::rest, "", 0, 0};
      if (common == budget_.begin.size()) return {Part::reasoning, "", 0, 0};
      return place;
    }
    ++place.num_tokens;
    place.num_written += is_ending ? 1 : 0;
    const bool is_written = idx(place.num_written) == budget_.ending.size();
    if (is_written || place.text.find(budget_.end) != std::string::npos) return {Part::rest, "", 0, 0};
    if (place.text.size() >= budget_.end.size()) place.text.erase(0, place.text.size() - budget_.end.size() + 1);
    return place;
  }

  const std::unique_ptr<sampling::Constraint> other_;
  const ReasoningBudget budget_;
  const int vocabulary_size_;
  const std::function<std::string(Token)> piece_;
  std::vector<Place> places_;  // the first is before the output, the others after each token
};

}  // namespace

std::unique_ptr<sampling::Constraint> limited_reasoning(std::unique_ptr<sampling::Constraint> other,
                                                        ReasoningBudget budget, int vocabulary_size,
                                                        std::function<std::string(Token)> piece) {
  return std::make_unique<LimitedReasoning>(std::move(other), std::move(budget), vocabulary_size, std::move(piece));
}

}  // namespace specdec
