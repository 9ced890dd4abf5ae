#include "server/generation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "engine/text_stream.h"
#include "sampling/dead_end.h"
#include "sampling/derived_seed.h"
#include "server/api_error.h"

namespace specdec::server {
namespace {

// How often the connection is checked while no piece comes.
constexpr std::chrono::milliseconds poll_interval(25);

}  // namespace

Generation::Generation(Service& service, const std::vector<Request>& requests, Client client)
    : service_(service),
      client_(std::move(client)),
      deadline_(client_, service.options().request_seconds),
      arrivals_(std::make_shared<Arrivals>()),
      constraint_(requests.empty() || requests[0].constraint() == nullptr ? "" : requests[0].constraint_name) {
  choices_.reserve(requests.size());
  try {
    for (const Request& request : requests) {
      choices_.push_back({service_.submit(request, client_)});
      choices_.back().handle->set_listener([arrivals = arrivals_] { arrivals->tell(); });
    }
  } catch (...) {
    for (Choice& choice : choices_) end(choice, true);
    if (client_()) throw ClientGone();
    throw;
  }
}

Generation::~Generation() {
  try {
    for (Choice& choice : choices_) {
      if (!choice.is_over) end(choice, true);
    }
  } catch (...) {  // a mutex of the system failed; the handles cancel their requests
  }
}

void Generation::end(Choice& choice, bool is_cancelled) {
  choice.is_over = true;
  if (is_cancelled) choice.handle->cancel();
  const Stats stats = choice.handle->stats();
  service_.metrics().add(stats, is_cancelled);
  client_.record->stats += stats;
}

// A dead end is the fault of the field that constrains the text.
void Generation::fail(const std::exception_ptr& error) const {
  try {
    std::rethrow_exception(error);
  } catch (const DeadEnd& end) {
    throw invalid_request(constraint_, (constraint_.empty() ? "" : constraint_ + ": ") + end.what());
  }
}

void Generation::finish(std::size_t choice) {
  if (choices_[choice].is_over) return;
  choices_[choice].handle->cancel();
  end(choices_[choice], false);
}

Stats Generation::all_stats() const {
  Stats sum;
  for (const Choice& choice : choices_) sum += choice.handle->stats();
  return sum;
}

std::optional<Piece> Generation::take(Choice& choice) {
  const bool was_done = choice.handle->is_done();  // asked first: once it is done, all pieces are there
  std::optional<Piece> piece = choice.handle->piece(choice.num_taken);
  if (piece) ++choice.num_taken;
  if (piece ? piece->finish_reason.has_value() : was_done) {
    const std::exception_ptr error = choice.handle->error();
    end(choice, error != nullptr);
    if (!piece && error) fail(error);
  }
  return piece;
}

// The first report counts only cached tokens, the last one the whole prompt.
void Generation::report(std::size_t index) {
  Choice& choice = choices_[index];
  PromptProgress progress = choice.handle->prompt_progress();
  if (progress.slot < 0 || progress.read == choice.num_read) return;
  if (choice.num_read < 0 && progress.read > progress.cached) {
    PromptProgress first = progress;
    first.read = first.cached;
    first.seconds = 0.0;
    on_progress_(index, first);
  }
  choice.num_read = progress.read;
  on_progress_(index, progress);
}

std::optional<Generation::Item> Generation::next() {
  while (true) {
    deadline_.check();
    const std::uint64_t seen = arrivals_->count();
    bool is_over = true;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const std::size_t index = (turn_ + i) % choices_.size();
      if (choices_[index].is_over) continue;
      if (on_progress_ && choices_[index].num_taken == 0) report(index);
      if (std::optional<Piece> piece = take(choices_[index])) {
        turn_ = index + 1;
        return Item{index, std::move(*piece)};
      }
      is_over = is_over && choices_[index].is_over;
    }
    if (is_over) return std::nullopt;
    arrivals_->wait_beyond(seen, poll_interval);
    if (events_ != nullptr) events_->keep_alive(service_.options().ping_interval);
  }
}

std::vector<Request> choices_of(const Request& request, int count) {
  std::vector<Request> requests(idx(count), request);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (request.seed) requests[i].seed = sampling::derived_seed(*request.seed, i);
  }
  return requests;
}

void Answer::add(Piece piece) {
  text += piece.text;
  finish_reason = piece.finish_reason;
  pieces.push_back(std::move(piece));
}

std::optional<std::string> stop_string(const Generator& generator, const Request& request, const Answer& answer) {
  const bool has_stopped = answer.finish_reason == FinishReason::stop;
  if (!has_stopped || generator.vocabulary().is_end_of_generation(answer.pieces.back().token)) return std::nullopt;
  const std::vector<Token> named = generator.control_tokens(request);
  TextStream stream({});
  std::string whole;
  for (const Piece& piece : answer.pieces) {
    const bool is_named = std::find(named.begin(), named.end(), piece.token) != named.end();
    whole += stream.push(generator.vocabulary().piece(piece.token, is_named));
  }
  whole += stream.finish();
  for (const std::string& stop : request.stop) {
    if (whole.compare(answer.text.size(), stop.size(), stop) == 0) return stop;
  }
  return "";
}

std::vector<Answer> collect(Generation& generation) {
  std::vector<Answer> answers(generation.num_choices());
  while (std::optional<Generation::Item> item = generation.next()) answers[item->choice].add(std::move(item->piece));
  for (std::size_t i = 0; i < answers.size(); ++i) answers[i].stats = generation.stats(i);
  return answers;
}

}  // namespace specdec::server
