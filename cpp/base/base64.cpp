#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace specdec {
namespace {

constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_value = 255;

std::array<std::uint8_t, 256> values() {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_value);
  for (std::uint8_t value = 0; value < 64; ++value) table[static_cast<unsigned char>(letters[value])] = value;
  table['-'] = 62, table['_'] = 63;
  return table;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      group = group << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 4; ++j) text += j <= count ? letters[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  static const std::array<std::uint8_t, 256> table = values();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t group = 0;
  std::size_t count = 0, padding = 0;
  for (const char letter : text) {
    if (letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t') continue;
    if (letter == '=') {
      ++padding;
      continue;
    }
    const std::uint8_t value = table[static_cast<unsigned char>(letter)];
    if (value == no_value || padding > 0) return std::nullopt;
    group = group << 6 | value;
    if (++count % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift & 255);
    group = 0;
  }
  const std::size_t rest = count % 4;
  if (rest == 1 || padding > 2 || (padding > 0 && (count + padding) % 4 != 0)) return std::nullopt;
  if (rest == 2) bytes += static_cast<char>(group >> 4 & 255);
  if (rest == 3) {
    bytes += static_cast<char>(group >> 10 & 255);
    bytes += static_cast<char>(group >> 2 & 255);
  }
  return bytes;
}

}  // namespace specdec
