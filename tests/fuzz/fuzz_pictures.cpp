// Bytes as a picture file: the decoder returns as many pixels as it says, or throws UnusablePicture.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "pictures/decode.h"
#include "pictures/stb_image_memory.h"
#include "stb_image.h"

namespace {

// Pictures of many pixels take long and go through the same code. What has no size is decoded, too.
bool is_small(const std::uint8_t* input, std::size_t size) {
  const specdec::StbMemory memory(std::size_t{1} << 20);
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(input, static_cast<int>(size), &width, &height, &channels) == 0) return true;
  return static_cast<std::int64_t>(width) * height <= 1 << 16;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (!is_small(input, size)) return 0;
  try {
    const specdec::Pixels pixels = specdec::decode_picture({reinterpret_cast<const char*>(input), size});
    if (pixels.width < 1 || pixels.height < 1) std::abort();
    const std::size_t count = static_cast<std::size_t>(pixels.width) * static_cast<std::size_t>(pixels.height);
    if (pixels.rgb.size() != 3 * count) std::abort();
    unsigned sum = 0;
    for (const std::uint8_t value : pixels.rgb) sum += value;  // all of it is there
    if (sum == 1) return 0;
  } catch (const specdec::UnusablePicture&) {
  }
  return 0;
}
