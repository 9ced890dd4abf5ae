// The bytes of a model's cache, by the metadata of its file.
#include <cstdint>
#include <string>
#include <utility>

#include "check.h"
#include "gguf/gguf_file.h"
#include "model_file/kv_cache.h"

namespace specdec {
namespace {

GgufFile llama_of_three_layers() {
  GgufFile file;
  file.metadata.push_back({"general.architecture", GgufType::string, std::string("llama")});
  for (const auto& [key, value] :
       {std::pair{"block_count", 3}, {"embedding_length", 256}, {"attention.head_count", 8}}) {
    file.metadata.push_back({std::string("llama.") + key, GgufType::u32, static_cast<std::uint64_t>(value)});
  }
  return file;
}

TEST(caches_take_what_the_metadata_says) {
  GgufFile file = llama_of_three_layers();
  CHECK(CacheShape::of(file).bytes(1, KvType::f16) == 3 * 8 * (32 + 32) * 2);  // layers, heads, keys and values, bytes
  CHECK(CacheShape::of(file).bytes(1, KvType::q8_0) == 3 * 8 * 2 * 34);
  CHECK(CacheShape::of(file).bytes(1, KvType::f16, 2) == 2 * 8 * (32 + 32) * 2);

  file.metadata.push_back({"llama.attention.key_length", GgufType::u32, std::uint64_t{96}});
  const std::string heads{4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0};  // per layer: 4, 0, 2
  file.metadata.push_back({"llama.attention.head_count_kv", GgufType::array, GgufArray{GgufType::u32, 3, heads}});
  CHECK(CacheShape::of(file).full.key == 96 && CacheShape::of(file).full.value == 32);
  CHECK(CacheShape::of(file).bytes(1, KvType::f16) == (4 + 2) * (96 + 32) * 2);
  CHECK(CacheShape::of(file).bytes(1, KvType::f16, 2) == 4 * (96 + 32) * 2);
}

TEST(heads_of_sliding_windows_may_be_larger) {
  GgufFile file = llama_of_three_layers();
  file.metadata.push_back({"llama.attention.key_length_swa", GgufType::u32, std::uint64_t{512}});
  CHECK(CacheShape::of(file).bytes(10, KvType::f16) == 10 * 3 * 8 * (512 + 32) * 2);
  file.metadata.push_back({"llama.attention.value_length_swa", GgufType::u32, std::uint64_t{16}});
  CHECK(CacheShape::of(file).windowed.value == 16);
  CHECK(CacheShape::of(file).bytes(10, KvType::f16) == 10 * 3 * 8 * (512 + 32) * 2);
}

TEST(caches_beyond_64_bits_do_not_wrap) {
  CacheShape shape;
  shape.full = {1 << 16, 1 << 16};
  shape.heads.assign(512, 1 << 16);
  shape.state = UINT64_MAX / 8;
  CHECK(shape.bytes(INT32_MAX, KvType::f16) == UINT64_MAX / 4);
  CHECK(shape.bytes(0, KvType::f16) == 0);
  CHECK(shape.state_bytes(256) == UINT64_MAX / 4 && shape.state_bytes(0) == 0);
}

TEST(recurrent_states_take_what_the_metadata_says) {
  GgufFile file;
  const auto add = [&](const char* key, std::uint64_t value) { file.metadata.push_back({key, GgufType::u32, value}); };
  file.metadata.push_back({"general.architecture", GgufType::string, std::string("mamba2")});
  add("mamba2.block_count", 2);
  add("mamba2.embedding_length", 64);
  add("mamba2.ssm.conv_kernel", 4);
  add("mamba2.ssm.inner_size", 128);
  add("mamba2.ssm.state_size", 16);
  add("mamba2.ssm.group_count", 2);
  // The convolution's last 3 inputs of 128 + 2 * 2 * 16 channels, and 128 x 16 numbers.
  CHECK(CacheShape::of(file).state_bytes(3) == std::uint64_t{3 * 2 * 4} * (3 * 192 + 128 * 16));
  CHECK(CacheShape::of(file).bytes(10, KvType::f16) == 0);
}

TEST(a_model_without_attention_has_no_cache) { CHECK(CacheShape::of(GgufFile()).bytes(1, KvType::f16) == 0); }

}  // namespace
}  // namespace specdec

TEST_MAIN()
