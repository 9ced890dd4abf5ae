// Reads the pieces of a request for a command: Ctrl-C ends the request, and a line on the terminal shows how much of a
// long prompt is read.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cli/terminal/progress.h"
#include "engine/generator.h"

namespace specdec::cli {

class PieceSource {
 public:
  // poll: called about every 20 ms while a piece is awaited; null: nothing.
  explicit PieceSource(std::shared_ptr<RequestHandle> handle, std::function<void()> poll = {});

  // Nullopt after the last piece. Throws what ended the request early; Cancelled after Ctrl-C, when the request has
  // ended.
  std::optional<Piece> next();

 private:
  void poll();
  void show_progress();

  std::shared_ptr<RequestHandle> handle_;
  std::function<void()> poll_;
  PieceReader reader_;
  std::optional<ProgressLine> line_;  // while the prompt is read, on a terminal
  bool is_shown_ = false;
};

// Reads the request's prompt into the caches and generates nothing.
std::shared_ptr<RequestHandle> read_prompt_of(Generator& generator, Request request);

}  // namespace specdec::cli
