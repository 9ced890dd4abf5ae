// stb_image, of llama.cpp's source, with the formats that are read and a limit on its memory.
#include <cstdlib>
#include <cstring>

#include "pictures/stb_image_memory.h"

namespace specdec {
namespace {

thread_local std::size_t bytes_left = 0;

// Each block begins with its size.
constexpr std::size_t header = alignof(std::max_align_t);

void* allocate(std::size_t bytes) {
  if (bytes > bytes_left) return nullptr;
  auto* const block = static_cast<char*>(std::malloc(header + bytes));
  if (block == nullptr) return nullptr;
  std::memcpy(block, &bytes, sizeof bytes);
  bytes_left -= bytes;
  return block + header;
}

void release(void* data) {
  if (data == nullptr) return;
  char* const block = static_cast<char*>(data) - header;
  std::size_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  bytes_left += bytes;
  std::free(block);
}

void* reallocate(void* data, std::size_t old_bytes, std::size_t bytes) {
  void* const moved = allocate(bytes);
  if (moved == nullptr || data == nullptr) return moved;
  std::memcpy(moved, data, old_bytes < bytes ? old_bytes : bytes);
  release(data);
  return moved;
}

// stb_image copies no bytes to a null pointer for an empty part of a PNG file; memcpy's pointers may not be null.
void* copy(void* to, const void* from, std::size_t bytes) { return bytes == 0 ? to : std::memcpy(to, from, bytes); }

}  // namespace

StbMemory::StbMemory(std::size_t most_bytes) { bytes_left = most_bytes; }
StbMemory::~StbMemory() { bytes_left = 0; }

}  // namespace specdec

#define STBI_MALLOC(bytes) specdec::allocate(bytes)
#define STBI_REALLOC_SIZED(data, old_bytes, bytes) specdec::reallocate(data, old_bytes, bytes)
#define STBI_FREE(data) specdec::release(data)
#define memcpy(to, from, bytes) specdec::copy(to, from, bytes)
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_GIF
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS (1 << 16)
#define STB_IMAGE_IMPLEMENTATION
#include "stb_image.h"
