// The cache's length is what the loop believes it to be: append, truncate, cancel, limits.

#include "llama/context.h"

#include <cstring>

#include "check.h"
#include "llama/backend.h"
#include "speculative/error.h"

namespace {

using namespace specdec;

std::shared_ptr<const Model> model() {
  static const auto loaded = std::make_shared<const Model>(std::string(MODELS) + "stdlib-draft-f16.gguf");
  return loaded;
}

std::unique_ptr<Context> context_of(int length, int slots = 1, KvType kv_type = KvType::f16) {
  Context::Options options;
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

TEST(memory_that_is_not_there_is_not_asked_for) {
  // 32 bytes of cache per layer and token: 2^24 tokens on 4096 slots are far beyond any machine.
  CHECK_THROWS(context_of(1 << 19, 4096), ModelError, "not enough memory");
}

TEST(a_draft_model_knows_its_shape) {
  CHECK(model()->architecture() == "llama" && model()->can_roll_back() && model()->trained_context() == 512);
  CHECK(model()->cache_bytes(512) == 2ull * 2 * 64 * 2 * 512);  // layers, keys and values, width, bytes, tokens
  CHECK(model()->cache_bytes(512, KvType::q8_0) == 2ull * 2 * 64 * 34 / 32 * 512);
  CHECK(default_threads() >= 1);
}

TEST_MAIN()
