// projector_rows TARGET MMPROJ WIDTH HEIGHT SEED: a random picture, read and encoded by Projector and by plain mtmd;
// fails unless both give the same tokens, positions and bits. Prints a line per part: "tokens 1 2 3" or "rows COUNT
// POSITIONS causal|whole FIRST".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama.h"
#include "llama/model.h"
#include "llama/projector.h"
#include "mtmd.h"

namespace {

using namespace specdec;

struct FreeMtmd {
  void operator()(mtmd_context* context) const { mtmd_free(context); }
  void operator()(mtmd_input_chunks* chunks) const { mtmd_input_chunks_free(chunks); }
  void operator()(mtmd_bitmap* bitmap) const { mtmd_bitmap_free(bitmap); }
};

struct Plain {
  std::unique_ptr<mtmd_context, FreeMtmd> context;
  std::unique_ptr<mtmd_input_chunks, FreeMtmd> chunks{mtmd_input_chunks_init()};

  Plain(const std::string& path, const Model& target, const Pixels& pixels) {
    mtmd_context_params params = mtmd_context_params_default();
    params.use_gpu = false;
    params.n_threads = 2;
    params.warmup = false;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    context.reset(mtmd_init_from_file(path.c_str(), target.get(), params));
    if (!context) throw std::runtime_error("mtmd cannot read " + path);
    const std::unique_ptr<mtmd_bitmap, FreeMtmd> bitmap(mtmd_bitmap_init(
        static_cast<std::uint32_t>(pixels.width), static_cast<std::uint32_t>(pixels.height), pixels.rgb.data()));
    const mtmd_bitmap* const bitmaps[] = {bitmap.get()};
    const mtmd_input_text text{mtmd_default_marker(), std::strlen(mtmd_default_marker()), false, true};
    if (mtmd_tokenize(context.get(), chunks.get(), &text, bitmaps, 1) != 0)
      throw std::runtime_error("mtmd_tokenize failed");
  }
};

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void compare(const Text& text, const Plain& plain, std::size_t row_size) {
  std::size_t at = 0, next = 0;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(plain.chunks.get()); ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(plain.chunks.get(), i);
    if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
      std::size_t count = 0;
      const llama_token* const tokens = mtmd_input_chunk_get_tokens_text(chunk, &count);
      std::printf("tokens");
      for (std::size_t t = 0; t < count; ++t) {
        std::printf(" %d", tokens[t]);
        require(at < text.tokens.size() && text.tokens[at] == tokens[t], "other tokens");
        ++at;
      }
      std::printf("\n");
      continue;
    }
    require(next < text.pictures.size(), "fewer pictures");
    const Picture& picture = text.pictures[next++];
    const std::size_t num_rows = mtmd_input_chunk_get_n_tokens(chunk);
    require(picture.place == static_cast<int>(at) && picture.num_rows == static_cast<int>(num_rows), "another place");
    require(picture.num_positions == mtmd_input_chunk_get_n_pos(chunk), "other positions");
    std::vector<mtmd_decoder_pos> positions(num_rows);
    for (std::size_t row = 0; row < num_rows; ++row) {
      require(text.tokens[at++] == in_picture, "a token in a picture");
      const mtmd_decoder_pos expected =
          mtmd_image_tokens_get_decoder_pos(mtmd_input_chunk_get_tokens_image(chunk), 7, row);
      const auto position = picture.rows->position(static_cast<int>(row), 7);
      const std::array<int, 4> numbers{static_cast<int>(expected.t), static_cast<int>(expected.y),
                                       static_cast<int>(expected.x), static_cast<int>(expected.z)};
      require(position == numbers, "another position of a row");
    }
    require(picture.rows->is_causal() != mtmd_decode_use_non_causal(plain.context.get(), chunk), "another causality");
    require(mtmd_encode_chunk(plain.context.get(), chunk) == 0, "mtmd_encode_chunk failed");
    const float* const rows = mtmd_get_output_embd(plain.context.get());
    require(std::memcmp(rows, picture.rows->rows(), num_rows * row_size * sizeof(float)) == 0, "other bits");
    for (std::size_t n = 0; n < num_rows * row_size; ++n) require(std::abs(rows[n]) < 1e6F, "a number of no use");
    std::printf("rows %zu %d %s %.6g\n", num_rows, picture.num_positions,
                picture.rows->is_causal() ? "causal" : "whole", static_cast<double>(rows[0]));
  }
  require(at == text.tokens.size() && next == text.pictures.size(), "more than mtmd has");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  try {
    const auto target = std::make_shared<const Model>(argv[1]);
    const auto projector = Projector::load(argv[2], target, 2, 2048);
    Pixels pixels{std::atoi(argv[3]), std::atoi(argv[4]), {}};
    std::mt19937 random(static_cast<std::uint32_t>(std::atoi(argv[5])));
    for (int i = 0; i < 3 * pixels.width * pixels.height; ++i)
      pixels.rgb.push_back(static_cast<std::uint8_t>(random() & 255));
    const Text text = projector->read(pixels);
    for (const Picture& picture : text.pictures) picture.rows->rows();  // of a bad file, an error instead of an end
    compare(text, Plain(argv[2], *target, pixels), static_cast<std::size_t>(projector->row_size()));
    const Text again = projector->read(pixels);
    require(again.tokens == text.tokens && again.pictures.size() == text.pictures.size(), "another text");
    for (std::size_t i = 0; i < text.pictures.size(); ++i) {
      require(again.pictures[i].key == text.pictures[i].key, "another key");
      for (std::size_t j = 0; j < i; ++j)
        require(text.pictures[i].key != text.pictures[j].key, "one key for two parts of a picture");
    }
    pixels.rgb[0] ^= 1;
    require(projector->read(pixels).pictures.at(0).key != text.pictures.at(0).key, "one key for two pictures");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
