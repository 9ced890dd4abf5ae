// Append, truncate, cancel, limits: the cache always has the length that the loop expects.

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "check.h"
#include "ggml.h"
#include "graph/op_failure.h"
#include "llama/context.h"

namespace {

using namespace specdec;

std::shared_ptr<const Model> model() {
  static const auto loaded = std::make_shared<const Model>(std::string(MODELS) + "stdlib-draft-f16.gguf");
  return loaded;
}

std::unique_ptr<Context> context_of(int length, int slots = 1, KvType kv_type = KvType::f16,
                                    bool holds_window = false) {
  Context::Options options;
  options.holds_window = holds_window;
  options.context_length = length;
  options.num_slots = slots;
  options.kv_type = kv_type;
  return std::make_unique<Context>(model(), std::make_shared<ThreadPool>(2), options);
}

std::vector<float> row_after(Context& context, const std::vector<Token>& tokens, int slot = 0) {
  context.decode({{slot, tokens.data(), static_cast<int>(tokens.size()), 1}});
  return {context.logits(0), context.logits(0) + context.vocabulary_size()};
}

}  // namespace

TEST(a_rolled_back_cache_is_as_if_never_written) {
  for (const KvType type : {KvType::f16, KvType::q8_0}) {
    const auto fresh = context_of(64, 1, type), used = context_of(64, 1, type);
    const std::vector<float> expected = row_after(*fresh, {0, 5, 6, 7, 8});
    row_after(*used, {0, 5, 6, 99, 98, 97});
    used->truncate(0, 3);
    CHECK(used->length(0) == 3);
    used->truncate(0, 10);  // nothing to forget
    CHECK(used->length(0) == 3);
    CHECK(row_after(*used, {7, 8}) == expected);
  }
}

TEST(sequences_do_not_see_each_other) {
  const auto alone = context_of(64), shared = context_of(64, 2);
  const std::vector<float> expected = row_after(*alone, {0, 5, 6});
  row_after(*shared, {0, 9, 9, 9, 9}, 1);
  CHECK(row_after(*shared, {0, 5, 6}, 0) == expected);
  CHECK(shared->length(0) == 3 && shared->length(1) == 5);
}

namespace {

using Texts = std::vector<std::vector<Token>>;  // by slot; empty: the slot is idle

Texts texts_of(std::initializer_list<int> lengths) {
  Texts texts;
  for (const int length : lengths) {
    texts.emplace_back();
    for (int i = 0; i < length; ++i)
      texts.back().push_back(static_cast<Token>(7 + 31 * texts.size() + static_cast<std::size_t>(i * i)) % 4096);
  }
  return texts;
}

// The last row of every sequence, all in one call.
std::vector<std::vector<float>> rows_after(Context& context, const Texts& texts) {
  std::vector<PassInput> inputs;
  for (std::size_t slot = 0; slot < texts.size(); ++slot) {
    if (!texts[slot].empty())
      inputs.push_back({static_cast<int>(slot), texts[slot].data(), static_cast<int>(texts[slot].size()), 1});
  }
  context.decode(inputs);
  std::vector<std::vector<float>> rows;
  for (std::size_t row = 0; row < inputs.size(); ++row) {
    const float* logits = context.logits(static_cast<int>(row));
    rows.emplace_back(logits, logits + context.vocabulary_size());
  }
  return rows;
}

}  // namespace

// Ragged inputs with idle slots in between, padded or in several llama.cpp passes: the same bits as alone, and correct
// lengths.
TEST(sequences_of_any_lengths_share_a_pass) {
  int padded = 0, ragged = 0;
  for (const auto& lengths : {std::initializer_list<int>{3, 1, 4, 2, 2},
                              {1, 1, 1},
                              {2, 0, 2},
                              {1, 8, 1, 1},
                              {0, 5, 0, 0, 0, 0, 0, 5},
                              {4, 0, 3, 9, 1, 0, 1},
                              {1, 40, 1}}) {
    for (const KvType type : {KvType::f16, KvType::q8_0}) {
      const Texts texts = texts_of(lengths);
      const auto together = context_of(64, static_cast<int>(texts.size()), type);
      const std::vector<Token> earlier = {0, 9, 9};  // in every slot, idle or not
      for (std::size_t slot = 0; slot < texts.size(); ++slot) row_after(*together, earlier, static_cast<int>(slot));
      const auto rows = rows_after(*together, texts);
      const int pass_size = together->pass_size();
      int num_tokens = 0;
      std::size_t row = 0;
      for (std::size_t slot = 0; slot < texts.size(); ++slot) {
        num_tokens += static_cast<int>(texts[slot].size());
        CHECK(together->length(static_cast<int>(slot)) == 3 + static_cast<int>(texts[slot].size()));
        const auto alone = context_of(64, 1, type);
        row_after(*alone, earlier);
        if (!texts[slot].empty()) CHECK(rows[row++] == row_after(*alone, texts[slot]));
        // The padding has been removed.
        const std::vector<Token> later = {11, 12};
        CHECK(row_after(*together, later, static_cast<int>(slot)) == row_after(*alone, later));
      }
      CHECK(pass_size >= num_tokens);
      if (pass_size > num_tokens) ++padded;
      else ++ragged;
    }
  }
  CHECK(padded >= 4 && ragged >= 4);
}

TEST(padding_stays_inside_the_context) {
  const auto context = context_of(40, 3);  // the cells of a slot: 256
  rows_after(*context, texts_of({38, 30, 38}));
  CHECK(context->length(0) == 38 && context->length(1) == 30 && context->length(2) == 38);
  rows_after(*context, texts_of({2, 8, 1}));  // 8 tokens more would be past the end of two of them
  CHECK(context->pass_size() == 11);
  CHECK(context->length(0) == 40 && context->length(1) == 38 && context->length(2) == 39);
}

TEST(a_copied_slot_goes_on_as_its_original) {
  for (const KvType type : {KvType::f16, KvType::q8_0}) {
    const auto context = context_of(64, 3, type), alone = context_of(64, 1, type);
    const std::vector<Token> text = {0, 5, 6, 7, 8, 9};
    row_after(*context, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2);
    row_after(*context, text, 0);
    row_after(*alone, text);
    context->copy(0, 2);
    CHECK(context->length(2) == 6);
    context->truncate(2, 4);
    row_after(*context, {1, 2, 3}, 0);  // the original goes on by itself
    alone->truncate(0, 4);
    CHECK(row_after(*context, {20, 21}, 2) == row_after(*alone, {20, 21}));
  }
}

// Also before the next pass, ahead of which llama.cpp would copy.
TEST(a_copy_is_one_of_what_was_there) {
  for (const KvType type : {KvType::f16, KvType::q8_0}) {
    const auto context = context_of(64, 3, type), alone = context_of(64, 1, type);
    row_after(*context, {0, 5, 6, 7, 8, 9}, 0);
    row_after(*context, {0, 1, 2, 3, 4, 5}, 1);
    row_after(*alone, {0, 5, 6, 7, 8, 9});
    const std::string other = context->state(1);
    context->copy(0, 2);
    CHECK(context->restore(0, other, 6));  // the original is another text now
    const std::string state = context->state(2);
    CHECK(row_after(*context, {20, 21}, 2) == row_after(*alone, {20, 21}));
    CHECK(context->restore(1, state, 6));
    alone->truncate(0, 6);
    CHECK(row_after(*context, {20, 21}, 1) == row_after(*alone, {20, 21}));
  }
}

TEST(a_pass_that_fails_leaves_every_slot_as_it_was) {
  const auto context = context_of(64, 4);
  for (int slot = 0; slot < 4; ++slot) row_after(*context, {0, 5, 6}, slot);
  context->set_cancel_check([] { return true; });
  CHECK_THROWS(rows_after(*context, texts_of({8, 0, 7, 8})), Cancelled, "cancelled");
  context->set_cancel_check(nullptr);
  const auto alone = context_of(64);
  row_after(*alone, {0, 5, 6});
  const std::vector<float> expected = row_after(*alone, {7, 8});
  for (int slot = 0; slot < 4; ++slot) {
    CHECK(context->length(slot) == 3);
    CHECK(row_after(*context, {7, 8}, slot) == expected);
  }
}

TEST(a_full_context_is_a_whole_context) {
  const auto context = context_of(40);  // llama.cpp itself rounds up to 256
  CHECK(context->context_length() == 40);
  const std::vector<Token> tokens(40, 3);
  row_after(*context, tokens);
  CHECK_THROWS(row_after(*context, {1}), std::logic_error, "past the context");
}

TEST(a_cancelled_pass_can_be_repeated) {
  const auto context = context_of(512), fresh = context_of(512);
  const std::vector<Token> tokens(300, 3);
  context->set_cancel_check([] { return true; });
  CHECK_THROWS(row_after(*context, tokens), Cancelled, "cancelled");
  context->truncate(0, 0);
  CHECK(context->length(0) == 0);
  context->set_cancel_check(nullptr);
  CHECK(row_after(*context, tokens) == row_after(*fresh, tokens));
}

// As an operation of ours would say it; the check is called between operations, on the thread of operations' thread 0.
TEST(a_rejected_operation_is_an_error_of_its_own_pass) {
  const std::unique_ptr<ggml_context, void (*)(ggml_context*)> memory(ggml_init({1 << 16, nullptr, false}), ggml_free);
  ggml_tensor* tensor = ggml_new_tensor_1d(memory.get(), GGML_TYPE_F32, 4);
  ggml_set_name(tensor, "blk.0.odd");
  const auto context = context_of(64), other = context_of(64);
  const std::vector<Token> tokens = {0, 5, 6};
  const std::vector<float> expected = row_after(*other, tokens);
  context->set_cancel_check([tensor] {
    fail_operation(tensor, tensor, "cannot be multiplied");
    fail_operation(tensor, tensor, "a later reason");
    return false;
  });
  CHECK_THROWS(row_after(*context, tokens), ModelError,
               "stdlib-draft-f16.gguf: tensor \"blk.0.odd\": cannot be multiplied");
  CHECK(context->length(0) == 0);

  context->set_cancel_check(nullptr);
  fail_operation(tensor, tensor, "left by another pass of this thread");
  CHECK(row_after(*context, tokens) == expected);

  // A pass on another thread, in the middle of this one's, has its own reason.
  std::string elsewhere;
  context->set_cancel_check([&] {
    if (!elsewhere.empty()) return false;
    std::thread([&] {
      other->truncate(0, 0);
      other->set_cancel_check([tensor] { return fail_operation(tensor, tensor, "cannot be multiplied"), false; });
      try {
        row_after(*other, tokens);
      } catch (const ModelError& error) {
        elsewhere = error.what();
      }
    }).join();
    return false;
  });
  context->truncate(0, 0);
  CHECK(row_after(*context, tokens) == expected);
  CHECK(elsewhere.find("cannot be multiplied") != std::string::npos);
}

TEST(a_cache_larger_than_memory_is_an_error) {
  // 512 bytes of cache per token: half a terabyte.
  CHECK_THROWS(context_of(1 << 19, 2048), ModelError, "not enough memory");
  CHECK_THROWS(context_of(1 << 19, 4096), ModelError, "4096 contexts of 524288 tokens are more than 2^31 together");
}

TEST(a_draft_model_knows_its_shape) {
  CHECK(model()->architecture() == "llama" && model()->can_roll_back() && model()->trained_context() == 512);
  CHECK(model()->cache_bytes(512) == 2ull * 2 * 64 * 2 * 512);  // layers, keys and values, width, bytes, tokens
  CHECK(model()->cache_bytes(512, KvType::q8_0) == 2ull * 2 * 64 * 34 / 32 * 512);
}

namespace {

// Reads the tokens from length() on up to `end`, `step` at a time. The last row.
std::vector<float> row_at(Context& context, const std::vector<Token>& text, int end, int step, int slot = 0) {
  std::vector<float> row;
  while (context.length(slot) < end) {
    const int begin = context.length(slot);
    row = row_after(context, {text.begin() + begin, text.begin() + std::min(end, begin + step)}, slot);
  }
  return row;
}

}  // namespace

// The bits of a row depend on where the window began to read, and when it moved, but not on passes, nor on what the
// slot held before, nor on the slot.
TEST(a_window_that_moves) {
  const std::vector<Token> text = texts_of({400}).front();
  for (const KvType type : {KvType::f16, KvType::q8_0}) {
    std::vector<std::vector<float>> rows;
    for (const int step : {1, 7, 32}) {
      const auto context = context_of(96, 2, type, true);
      const int slot = step == 7 ? 1 : 0;
      row_after(*context, {0, 9, 9}, slot);
      context->start_at(slot, 40);
      CHECK(context->length(slot) == 40 && context->first(slot) == 40);
      row_at(*context, text, 128, step, slot);
      CHECK(context->drop_before(slot, 72));
      CHECK(context->length(slot) == 128 && context->first(slot) == 72);
      row_after(*context, {3, 3, 3}, slot);  // drafts
      context->truncate(slot, 128);
      row_at(*context, text, 160, step, slot);
      CHECK(context->drop_before(slot, 104));
      rows.push_back(row_at(*context, text, 190, step, slot));

      const int other = 1 - slot;  // a copy, and a window from bytes
      context->copy(slot, other);
      CHECK(context->first(other) == 104 && context->length(other) == 190);
      const std::string bytes = context->state(slot);
      row_after(*context, {5}, slot);
      const auto next = row_after(*context, {6}, slot);
      CHECK(context->restore(slot, bytes, 190));
      CHECK(context->first(slot) == 104 && context->length(slot) == 190);
      CHECK(row_after(*context, {5, 6}, slot) == next && row_after(*context, {5, 6}, other) == next);
    }
    CHECK(rows[0] == rows[1] && rows[0] == rows[2]);
  }
}

// It is the same window, wherever in the text it is.
TEST(a_window_begins_at_the_first_position) {
  const std::vector<Token> text = texts_of({300}).front();
  const auto moved = context_of(96, 1, KvType::f16, true), fresh = context_of(96);
  moved->start_at(0, 200);
  CHECK(row_at(*moved, text, 240, 16) == row_after(*fresh, {text.begin() + 200, text.begin() + 240}));
}

TEST(a_window_ends) {
  const std::vector<Token> text = texts_of({700}).front();
  const auto context = context_of(96, 1, KvType::f16, true);
  context->start_at(0, 30);
  row_at(*context, text, 126, 32);
  CHECK_THROWS(row_after(*context, {1}), std::logic_error, "past the context");
  CHECK(context->drop_before(0, 30));  // nothing to drop
  context->truncate(0, 30);
  CHECK(context->length(0) == 0 && context->first(0) == 0);
  context->start_at(0, 30);
  row_at(*context, text, 126, 32);
  CHECK(context->drop_before(0, 126));  // everything
  CHECK(context->length(0) == 126 && context->first(0) == 126);
  row_at(*context, text, 222, 32);
  CHECK(context->drop_before(0, 190));
  row_at(*context, text, 286, 32);
  context->truncate(0, 250);
  CHECK(context->length(0) == 250 && context->first(0) == 190);
  // The model has 512 positions; the window began at 126 with the first.
  row_at(*context, text, 286, 32);
  for (int first = 254; first + 96 - 126 <= 512; first += 64) {
    CHECK(context->drop_before(0, first));
    row_at(*context, text, first + 96, 32);
  }
  CHECK(!context->drop_before(0, context->length(0) - 32));
}

TEST_MAIN()
