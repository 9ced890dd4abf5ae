#include "platform/public_address.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace specdec {
namespace {

struct Network {
  std::uint32_t address;
  int bits;
};
// IANA's registry of special addresses (RFC 6890), multicast and what was never given out.
constexpr Network not_public[] = {
    {0x00000000, 8},   // this network
    {0x0A000000, 8},   // private
    {0x64400000, 10},  // shared by carriers
    {0x7F000000, 8},   // loopback
    {0xA9FE0000, 16},  // link-local, where clouds keep their secrets
    {0xAC100000, 12},  // private
    {0xC0000000, 24},  // protocols
    {0xC0000200, 24},  // examples
    {0xC0586300, 24},  // 6to4 relays
    {0xC0A80000, 16},  // private
    {0xC6120000, 15},  // benchmarks
    {0xC6336400, 24},  // examples
    {0xCB007100, 24},  // examples
    {0xE0000000, 3},   // multicast and reserved
};

std::optional<std::uint32_t> ipv4(const std::string& text) {
  std::uint32_t address = 0;
  const char* at = text.c_str();
  for (int i = 0; i < 4; ++i) {
    if (*at < '0' || *at > '9') return std::nullopt;
    char* end = nullptr;
    const long part = std::strtol(at, &end, 10);
    if (end - at > 3 || part > 255 || *end != (i < 3 ? '.' : '\0')) return std::nullopt;
    address = address << 8 | static_cast<std::uint32_t>(part);
    at = end + 1;
  }
  return address;
}

// The first 32 bits, which is all that is asked about; nullopt if they are not written out or the text is no address.
std::optional<std::uint32_t> beginning_of_ipv6(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon > 4) return std::nullopt;
  char* end = nullptr;
  const auto first = static_cast<std::uint32_t>(std::strtoul(text.c_str(), &end, 16));
  if (end != text.c_str() + colon) return std::nullopt;
  if (text.compare(colon, 2, "::") == 0) return first << 16;
  const char* const second_text = text.c_str() + colon + 1;
  const auto second = static_cast<std::uint32_t>(std::strtoul(second_text, &end, 16));
  if (end == second_text || end - second_text > 4 || *end != ':') return std::nullopt;
  return first << 16 | second;
}

}  // namespace

bool is_public_address(const std::string& ip) {
  if (const std::optional<std::uint32_t> address = ipv4(ip)) {
    for (const Network& network : not_public) {
      if (((*address ^ network.address) >> (32 - network.bits)) == 0) return false;
    }
    return true;
  }
  const std::optional<std::uint32_t> beginning = beginning_of_ipv6(ip);
  if (!beginning || *beginning >> 29 != 1) return false;  // global unicast is 2000::/3
  const std::uint32_t first = *beginning >> 16;
  const bool is_special = *beginning == 0x20010000 || *beginning == 0x20010DB8 || first == 0x2002 || first == 0x3FFF;
  return !is_special;  // Teredo, examples, 6to4
}

}  // namespace specdec
