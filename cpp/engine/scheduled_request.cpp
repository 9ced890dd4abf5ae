#include "engine/scheduled_request.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "speculative/suffix_proposer.h"

namespace specdec {
namespace {

FinishReason reason_of(Finish finish) {
  switch (finish) {
    case Finish::max_tokens:
      return FinishReason::length;
    case Finish::context:
      return FinishReason::context;
    default:
      return FinishReason::stop;
  }
}

bool repeats(Verification verification, int num_draft_tokens) {
  return num_draft_tokens != auto_draft_tokens || verification == Verification::invariant;
}

// The request word of the output's random numbers. "auto" draft lengths are learnt from this generator's earlier
// outputs: if a seed is given again, the output must not be sampled with the same numbers that the lengths were learnt
// from, so each request has its own. If the output does not depend on learnt lengths (a fixed K, or invariant
// verification), the seed alone decides.
std::uint64_t request_word(std::int64_t id, const Request& request, int num_draft_tokens) {
  return repeats(request.verification_in_use(), num_draft_tokens) ? 0 : static_cast<std::uint64_t>(id);
}

}  // namespace

ScheduledRequest::ScheduledRequest(std::int64_t id, const Request& request, Text prompt, std::uint64_t seed,
                                   int num_draft_tokens, sampling::TokenRules rules)
    : id_(id),
      sequence_(-1, request.sampling,
                std::make_unique<sampling::PhiloxUniforms>(seed, request_word(id, request, num_draft_tokens)),
                std::move(rules)),
      stream_(request.stop),
      control_tokens_(request.control_tokens),
      seed_(seed),
      wanted_slot_(request.slot),
      is_repeatable_(request.sampling.greedy() || repeats(request.verification_in_use(), num_draft_tokens)),
      reads_prompt_(request.score_prompt || request.read_prompt),
      num_delivered_(prompt.length()) {
  if (request.one_call) one_call_.emplace(request.one_call);
  sequence_.num_committed = num_delivered_;
  static_cast<Text&>(sequence_) = std::move(prompt);
  if (request.score_prompt) {
    sequence_.prompt_score = std::make_shared<Score>();
    sequence_.prompt_score->tokens = sequence_.tokens;
    sequence_.prompt_score->first = std::clamp(request.score_from, 1, num_delivered_);
    sequence_.prompt_score->num_top_logprobs = request.top_logprobs;
  }
  sequence_.num_draft_tokens = num_draft_tokens;
  sequence_.stats.prompt_tokens = num_delivered_;
  sequence_.remaining = request.max_tokens;
  sequence_.has_logprobs = request.logprobs || request.top_logprobs > 0;
  sequence_.num_top_logprobs = request.top_logprobs;
  sequence_.reports_cut_drafts = request.reports_cut_drafts;
  sequence_.verification = request.verification_in_use();
  sequence_.drafting = request.drafting;
  sequence_.stop_tokens = request.stop_token_ids;
}

std::shared_ptr<const Score> ScheduledRequest::prompt_score() const {
  return sequence_.prompt_score && sequence_.prompt_score->is_complete() ? sequence_.prompt_score : nullptr;
}

void ScheduledRequest::constrain(std::unique_ptr<sampling::Constraint> constraint) {
  if (constraint)
    sequence_.constraint = std::make_unique<sampling::ConstraintState>(std::move(constraint), num_delivered_);
}

void ScheduledRequest::predict(const std::vector<Token>& output) {
  if (!output.empty()) sequence_.prediction = std::make_unique<Prediction>(sequence_.tokens, output);
}

Piece ScheduledRequest::next_piece(const Vocabulary& vocabulary) {
  const std::size_t each = sequence_.top_logprobs.size() / sequence_.emitted.size();
  const auto top = sequence_.top_logprobs.begin() + static_cast<std::ptrdiff_t>(each * next_);
  const Emission& emission = sequence_.emitted[next_++];
  ++num_delivered_;
  Piece piece;
  piece.token = emission.token;
  piece.origin = emission.origin;
  piece.logprob = emission.logprob;
  piece.top_logprobs.assign(top, top + static_cast<std::ptrdiff_t>(each));
  const bool is_named =
      std::find(control_tokens_.begin(), control_tokens_.end(), emission.token) != control_tokens_.end();
  for (std::size_t i = 0; !has_pieces() && i < sequence_.cut_drafts.size(); ++i) {
    piece.cut_drafts.emplace_back();
    for (const Token token : sequence_.cut_drafts[i]) piece.cut_drafts.back() += vocabulary.piece(token, true);
  }
  vocabulary.piece(emission.token, token_bytes_, is_named);
  piece.text = stream_.push(token_bytes_);
  if (one_call_ && !piece.text.empty()) one_call_->add(piece.text, AnswerEnd::none);
  if (stream_.stopped() || (one_call_ && one_call_->output().is_over)) {
    piece.finish_reason = FinishReason::stop;
  } else if (!has_pieces() && sequence_.finish != Finish::none) {
    piece.text += stream_.finish();
    piece.finish_reason = reason_of(sequence_.finish);
  }
  return piece;
}

void ScheduledRequest::begin_reading(int place, int slot) {
  advance(State::waiting, State::reading);
  sequence_.slot = place;
  slot_ = slot;
}

void ScheduledRequest::begin_running() { advance(State::reading, State::running); }

void ScheduledRequest::advance(State from, State to) {
  if (state_ != from) throw std::logic_error("a request must wait, then read its prompt, then run");
  state_ = to;
}

void ScheduledRequest::end() {
  state_ = State::over;
  for (Picture& picture : sequence_.pictures) picture.rows.reset();  // its slot keeps the text
  next_ = sequence_.emitted.size();
}

void ScheduledRequest::fail(std::exception_ptr error) {
  end();
  error_ = std::move(error);
}

void ScheduledRequest::rethrow_error() const {
  if (error_) std::rethrow_exception(error_);
}

std::string ScheduledRequest::error_message() const {
  try {
    rethrow_error();
    return "";
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown C++ exception";
  }
}

}  // namespace specdec
