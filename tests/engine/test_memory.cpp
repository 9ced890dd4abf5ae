// What a Generator's caches take, by the headers of its models alone.

#include <algorithm>
#include <string>

#include "check.h"
#include "engine/memory.h"

namespace {

using namespace specdec;

std::vector<GgufFile> parts(const char* name) { return GgufFile::read_parts(std::string(MODELS) + name); }

GeneratorOptions options_of(int context, const std::string& kv_type = "f16") {
  GeneratorOptions options;
  options.n_ctx = context;
  options.kv_type = kv_type;
  return options;
}

}  // namespace

TEST(the_cache_of_a_draft_is_as_long_as_its_window) {
  const auto target = parts("stdlib-target-f16.gguf"), draft = parts("stdlib-draft-f16.gguf");
  GeneratorOptions options = options_of(512);
  const CacheNeed all = cache_need(options, *options.n_ctx, target, draft);
  CHECK(all.target > 0 && all.draft > 0);
  options.draft_window = 128;
  const CacheNeed windowed = cache_need(options, *options.n_ctx, target, draft);
  CHECK(windowed.target == all.target && 4 * windowed.draft == all.draft);
  options.max_sequences = 3;
  CHECK(cache_need(options, *options.n_ctx, target, draft).draft == 3 * windowed.draft);
  CHECK(cache_need(options, *options.n_ctx, target, {}).draft == 0);
  const CacheNeed small = cache_need(options_of(512, "q8_0"), 512, target, draft);
  CHECK(small.target * 32 == all.target * 17 && small.draft * 32 == all.draft * 17);  // 8.5 of 16 bits
}

TEST(a_head_has_the_cache_of_its_layers_for_the_whole_context) {
  const auto target = parts("stdlib-target-f16.gguf"), head = parts("stdlib-head-f16.gguf");
  GeneratorOptions options = options_of(512);
  options.draft_window = 128;  // of models alone
  const CacheNeed need = cache_need(options, *options.n_ctx, target, head);
  CHECK(need.draft > 0 && need.target == 8 * need.draft);  // one layer of the target's shape
}

TEST(a_window_fits_what_the_draft_was_trained_with) {
  GeneratorOptions options;
  CHECK(draft_window(options, 32768, 32768) == default_draft_window);
  CHECK(draft_window(options, 4096, 2048) == std::min(default_draft_window, 1024));
  CHECK(draft_window(options, 512, 512) == std::min(default_draft_window, 512));
  CHECK(draft_window(options, 600, 512) == 256);  // positions run out, and half of them are read again
  options.draft_window = 300;
  CHECK(draft_window(options, 600, 512) == 300);
}

TEST(the_longest_context_fits) {
  const auto target = parts("stdlib-target-f16.gguf"), draft = parts("stdlib-draft-f16.gguf");
  const GeneratorOptions options = options_of(0);
  CHECK(longest_context(options, target, draft, 0) == 512);  // memory is not known
  CHECK(longest_context(options, target, draft, std::uint64_t{1} << 40) == 512);
  const std::uint64_t weights = target.front().file_size + draft.front().file_size;
  CHECK(longest_context(options, target, draft, weights) == 256);  // the least
  int last = 0;
  for (std::uint64_t available = weights; available < 8 * weights; available += weights / 16) {
    const int length = longest_context(options, target, draft, available);
    CHECK(last <= length && length <= 512);
    last = length;
  }
  CHECK(last == 512);
}

TEST_MAIN()
