#include "cli/piece_source.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"
#include "cli/terminal/format.h"
#include "platform/console.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

constexpr std::int64_t long_prompt = 100;  // tokens; shorter ones are read at once

void throw_if_interrupted() {
  if (interrupted()) throw Cancelled("interrupted");
}

}  // namespace

PieceSource::PieceSource(std::shared_ptr<RequestHandle> handle, std::function<void()> poll)
    : handle_(std::move(handle)), poll_(std::move(poll)), reader_(handle_, [this] { this->poll(); }) {
  if (is_terminal(StandardStream::error)) line_.emplace();
}

std::optional<Piece> PieceSource::next() {
  try {
    throw_if_interrupted();
    std::optional<Piece> piece = reader_.next();
    line_.reset();
    return piece;
  } catch (const Cancelled&) {
    line_.reset();
    handle_->cancel();
    while (!handle_->wait_for_end(std::chrono::milliseconds(20))) {
    }
    throw;
  }
}

void PieceSource::poll() {
  if (poll_) poll_();
  throw_if_interrupted();
  if (line_) show_progress();
}

void PieceSource::show_progress() {
  const PromptProgress progress = handle_->prompt_progress();
  std::string text = "reading: " + std::to_string(progress.read) + " of " + counted(progress.all, "token");
  if (progress.pictures > 0) text += ", with " + counted(progress.pictures, "picture");
  if (!std::exchange(is_shown_, true) && (progress.all > long_prompt || progress.pictures > 0)) line_->begin(text);
  else line_->update([&] { return std::move(text); });
}

std::shared_ptr<RequestHandle> read_prompt_of(Generator& generator, Request request) {
  request.max_tokens = 0;
  request.read_prompt = true;
  request.drop_constraint();
  std::shared_ptr<RequestHandle> handle = generator.submit(request, interrupted);
  (void)PieceSource(handle).next();
  return handle;
}

}  // namespace specdec::cli
