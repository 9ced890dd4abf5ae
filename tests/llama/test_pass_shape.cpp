// Shapes of passes (cpp/llama/pass_shape.h): how tokens are cut, and that a context makes the same rows this way.
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "llama/context.h"
#include "llama/invariant_kernels.h"
#include "llama/pass_shape.h"

namespace {

using namespace specdec;
using Piece = PassShape::Piece;

// Pieces are consecutive, and none is empty or too long.
void check_cut(const std::vector<Piece>& pieces, Cell begin, Cell end) {
  for (const Piece& piece : pieces) {
    CHECK(piece.begin == begin && 0 < piece.count && piece.count <= piece.width);
    begin += piece.count;
  }
  CHECK(begin == end);
}

constexpr int length = 300, vocabulary = 4096;

std::vector<Token> text() { return some_text(length, vocabulary); }

std::shared_ptr<const Model> shared_model() {
  static const auto model = std::make_shared<const Model>(std::string(MODELS) + "stdlib-draft-f16.gguf");
  return model;
}

std::unique_ptr<Context> context_of(int width, int num_slots = 1) {
  Context::Options options;
  options.context_length = 512;
  options.num_slots = num_slots;
  options.width = width;
  return std::make_unique<Context>(shared_model(), std::make_shared<ThreadPool>(2), options);
}

// A prompt, then passes of `count` tokens with all their rows: [length - prompt][vocabulary]
std::vector<float> rows_of(Context& context, int slot, int prompt, int count) {
  const std::vector<Token> tokens = text();
  context.expect_prompt(slot, prompt);
  context.decode({{slot, tokens.data(), prompt, 0}});
  std::vector<float> all;
  for (int at = prompt; at < length; at += count) {
    const int n = std::min(count, length - at);
    context.decode({{slot, tokens.data() + at, n, n}});
    CHECK(context.pass_size() == n && context.length(slot) == at + n);
    for (int row = 0; row < n; ++row) all.insert(all.end(), context.logits(row), context.logits(row) + vocabulary);
  }
  return all;
}

}  // namespace

// What a pass computes for a token depends on its cell alone, wherever the pass begins.
TEST(the_cells_of_a_pass_are_a_function_of_the_tokens_cell) {
  for (const int width : {1, 2, 7, 8, 16}) {
    for (const bool pads : {true, false}) {
      PassShape shape = PassShape::of(width, 512, true);
      shape.pads = pads;
      for (Cell cell; cell.value < 600; cell += 1) {
        std::set<int> cells;
        for (Cell begin(std::max(0, cell.value - 40)); begin <= cell; begin += 1) {
          for (const Piece& piece : shape.pieces(begin, cell + 1)) {
            CHECK(piece.width == (pads ? width : piece.count) && piece.count <= width);
            if (piece.begin + piece.count > cell) cells.insert(PassShape::num_cells(piece));
          }
        }
        CHECK(cells.size() == 1);
      }
    }
  }
}

TEST(pieces_are_as_long_as_they_can_be) {
  const PassShape shape = PassShape::of(8, 512, true);
  for (Cell begin; begin.value < 520; begin += 1) {
    for (int count = 0; count < 30; ++count) {
      const std::vector<Piece> pieces = shape.pieces(begin, begin + count);
      check_cut(pieces, begin, begin + count);
      CHECK(static_cast<int>(pieces.size()) <= (count + 7) / 8 + 1);  // one more at a boundary
    }
  }
  CHECK(shape.pieces(Cell(0), Cell(8)).size() == 1);
  CHECK(shape.pieces(Cell(245), Cell(253)).size() == 2);  // 249 begins a pass over 257 cells, rounded up to 512
}

TEST(prompts_are_cut_at_fixed_positions) {
  const PassShape shape = PassShape::of(8, 512, true);
  CHECK(shape.prompt_width == 256 && shape.reusable(700) == 512);
  const std::vector<Piece> pieces = shape.prompt_pieces(Cell(256), Cell(600));
  check_cut(pieces, Cell(256), Cell(600));
  CHECK(pieces.front().width == 256 && pieces.back().width == 32 && pieces.back().count == 24);
  // A longer prompt that begins with it reads the whole pieces alike.
  CHECK(shape.prompt_pieces(Cell(256), Cell(900)).front().count == 256);
}

TEST(prompts_without_padding) {
  const PassShape shape = PassShape::of(8, 100, false);
  CHECK(shape.prompt_width == 64);
  const std::vector<Piece> pieces = shape.prompt_pieces(Cell(0), Cell(64 + 32 + 8 + 3));
  check_cut(pieces, Cell(0), Cell(107));
  for (const Piece& piece : pieces) CHECK(piece.count == piece.width || piece.width == 8);
}

// On the CPU, whose kernels are batch-invariant, rows are those of narrow passes.
TEST(rows_are_those_of_other_passes) {
  const std::vector<float> expected = rows_of(*context_of(0), 0, 40, 1);
  for (const int width : {1, 3, 8}) {
    for (const int count : {1, 5, 20}) {
      const std::vector<float> rows = rows_of(*context_of(width), 0, 40, count);
      CHECK(rows.size() == expected.size() &&
            std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)) == 0);
    }
  }
}

// The CPU's kernels are batch-invariant, so nothing is padded.
TEST(rows_of_passes_without_padding) {
  const std::vector<float> expected = rows_of(*context_of(0), 0, 40, 1);
  for (const int count : {1, 5, 20}) {
    const auto context = context_of(8);
    CHECK(context->leave_out_padding() && context->length(0) == 0);
    const std::vector<float> rows = rows_of(*context, 0, 40, count);
    CHECK(std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)) == 0);
  }
  CHECK(!context_of(0)->leave_out_padding());  // passes of any width have none
}

// A driver may compile kernels otherwise for some number of tokens.
TEST(a_difference_between_widths_keeps_the_padding) {
  class Uneven : public Context {
   public:
    Uneven(int tokens, const Context::Options& options)
        : Context(shared_model(), std::make_shared<ThreadPool>(2), options), tokens_(tokens) {}
    const float* logits(int row) const override {
      if (pass_size() != tokens_) return Context::logits(row);
      rows_.assign(Context::logits(0), Context::logits(tokens_));
      rows_.front() += 1.0f;
      return rows_.data() + row * vocabulary;
    }

   private:
    int tokens_;
    mutable std::vector<float> rows_;
  };
  Context::Options options;
  options.context_length = 512;
  options.width = 8;
  for (int tokens = 1; tokens <= 8; ++tokens) CHECK(!Uneven(tokens, options).leave_out_padding());
  CHECK(Uneven(9, options).leave_out_padding());
}

TEST(slots_are_read_one_after_another) {
  const std::vector<float> expected = rows_of(*context_of(8), 0, 40, 4);
  const auto context = context_of(8, 3);
  const std::vector<Token> tokens = text();
  for (int slot = 0; slot < 3; ++slot) context->decode({{slot, tokens.data(), 40, 0}});
  context->decode({{0, tokens.data() + 40, 1, 1}, {1, tokens.data() + 40, 4, 4}, {2, tokens.data() + 40, 9, 2}});
  CHECK(context->pass_size() == 14);
  const auto equals = [&](int row, int position) {
    return std::memcmp(context->logits(row), expected.data() + static_cast<std::size_t>(position - 40) * vocabulary,
                       vocabulary * sizeof(float)) == 0;
  };
  CHECK(equals(0, 40));
  for (int i = 0; i < 4; ++i) CHECK(equals(1 + i, 40 + i));
  CHECK(equals(5, 47) && equals(6, 48));
}

TEST(slots_share_passes_without_padding) {
  class Counting : public Context {
   public:
    explicit Counting(const Context::Options& options)
        : Context(shared_model(), std::make_shared<ThreadPool>(2), options) {}
    int num_passes = 0;

   private:
    void before_pass() override { ++num_passes; }
  };
  const std::vector<float> expected = rows_of(*context_of(0), 0, 40, 1);
  const std::vector<Token> tokens = text();
  Context::Options options;
  options.context_length = 512;
  options.num_slots = 4;
  options.width = 8;
  Counting context(options);
  CHECK(context.leave_out_padding());
  // Reads `count` tokens of each slot after the first `at[slot]`, and returns the number of passes.
  const auto passes = [&](const std::vector<int>& at, const std::vector<int>& counts) {
    std::vector<PassInput> inputs;
    for (int slot = 0; slot < 4; ++slot) {
      context.truncate(slot, 0);
      context.expect_prompt(slot, at[static_cast<std::size_t>(slot)]);
      context.decode({{slot, tokens.data(), at[static_cast<std::size_t>(slot)], 0}});
    }
    for (int slot = 0; slot < 4; ++slot) {
      const int count = counts[static_cast<std::size_t>(slot)];
      if (count > 0) inputs.push_back({slot, tokens.data() + at[static_cast<std::size_t>(slot)], count, count});
    }
    context.num_passes = 0;
    context.decode(inputs);
    int row = 0;
    for (const PassInput& input : inputs) {
      for (int i = 0; i < input.num_tokens; ++i, ++row) {
        const std::size_t position = static_cast<std::size_t>(at[static_cast<std::size_t>(input.slot)] + i - 40);
        CHECK(std::memcmp(context.logits(row), expected.data() + position * vocabulary, vocabulary * sizeof(float)) ==
              0);
      }
    }
    return context.num_passes;
  };
  CHECK(passes({40, 60, 41, 200}, {2, 2, 2, 2}) == 1);
  CHECK(passes({40, 60, 41, 200}, {3, 3, 3, 3}) == 2);   // at most 8 tokens
  CHECK(passes({40, 60, 41, 200}, {1, 2, 2, 1}) == 3);   // equally many
  CHECK(passes({40, 60, 41, 200}, {2, 2, 0, 2}) == 2);   // adjacent
  CHECK(passes({40, 60, 257, 258}, {2, 2, 2, 2}) == 2);  // over as many cells
  CHECK(passes({40, 60, 255, 254}, {1, 1, 2, 1}) == 4);  // a piece on either side of a step
}

TEST(rows_of_padding_are_not_copied) {
  const auto context = context_of(8);
  const std::vector<Token> tokens = text();
  context->decode({{0, tokens.data(), 8, 8}});
  const std::vector<float> before(context->logits(0), context->logits(8));
  context->decode({{0, tokens.data() + 8, 1, 1}});
  const auto is_unchanged = [&](int row) {
    return std::memcmp(context->logits(row), before.data() + row * vocabulary, vocabulary * sizeof(float)) == 0;
  };
  CHECK(!is_unchanged(0));
  for (int row = 1; row < 8; ++row) CHECK(is_unchanged(row));
}

TEST(what_is_reused_are_whole_pieces) {
  const auto context = context_of(8);
  const std::vector<Token> tokens = text();
  context->expect_prompt(0, 280);
  context->decode({{0, tokens.data(), 280, 0}});
  CHECK(context->reusable(0, 280) == 256 && context->reusable(0, 255) == 0 && context->prompt_piece() == 256);
  const std::string state = context->state(0);
  context->truncate(0, 270);  // behind the whole pieces
  CHECK(context->length(0) == 270);
  context->truncate(0, 200);
  CHECK(context->length(0) == 0 && context->reusable(0, 200) == 0);
  CHECK(context->restore(0, state, 280) && context->reusable(0, 280) == 256);
  CHECK(context_of(0)->reusable(0, 123) == 123);
}

// 40 tokens, a picture of 10 rows, 256 tokens and 20 more.
TEST(pieces_begin_anew_behind_a_picture) {
  class SameRows : public PictureRows {
   public:
    const float* rows() const override { return rows_.data(); }
    std::array<int, 4> position(int row, int begin) const override { return {begin + row, 0, 0, 0}; }
    bool is_causal() const override { return true; }

   private:
    std::vector<float> rows_ = std::vector<float>(std::size_t{10} * vocabulary, 0.1f);
  };
  Picture picture;
  picture.place = 40;
  picture.num_rows = picture.num_positions = 10;
  picture.rows = std::make_shared<SameRows>();
  const std::vector<Token> tokens = text();
  const auto read = [&](int width) {
    Context::Options options;
    options.context_length = 512;
    options.width = width;
    options.reads_pictures = true;
    auto context = std::make_unique<Context>(shared_model(), std::make_shared<ThreadPool>(2), options);
    context->expect_prompt(0, 326);
    context->decode({{0, tokens.data(), 40, 0}});
    PassInput rows{0, nullptr, 10, 0};
    rows.picture = &picture;
    context->decode({rows});
    context->decode({{0, tokens.data(), 276, 0}});
    CHECK(context->length(0) == 326);
    context->decode({{0, tokens.data(), 3, 3}});
    return context;
  };
  const auto context = read(8), plain = read(0);
  CHECK(std::memcmp(context->logits(0), plain->logits(0), std::size_t{3} * vocabulary * sizeof(float)) == 0);
  const std::string state = context->state(0);
  for (const bool is_restored : {false, true}) {
    if (is_restored) CHECK(context->restore(0, state, 329));
    CHECK(context->reusable(0, 329) == 306 && context->reusable(0, 305) == 50 && context->reusable(0, 50) == 50);
    CHECK(context->reusable(0, 49) == 0 && context->reusable(0, 40) == 0);
    context->truncate(0, 300);
    CHECK(context->length(0) == 50);
    context->truncate(0, 45);
    CHECK(context->length(0) == 0);
  }
}

TEST(a_cancelled_pass_leaves_what_was_there) {
  const auto context = context_of(8);
  const std::vector<Token> tokens = text();
  context->decode({{0, tokens.data(), 30, 0}});
  int calls = 0;
  context->set_cancel_check([&] { return ++calls > 2; });
  bool was_cancelled = false;
  try {
    context->decode({{0, tokens.data() + 30, 40, 40}});
  } catch (const Cancelled&) {
    was_cancelled = true;
  }
  CHECK(was_cancelled && context->length(0) == 30);
}

TEST_MAIN()
