// Which addresses belong to the public internet: others must not be reached on behalf of a stranger.
#pragma once

#include <string>

namespace specdec {

// ip: an IPv4 or IPv6 address as text. False for loopback, private, link-local, shared, reserved and multicast ones,
// for those that embed an IPv4 address, and for all that is no address.
bool is_public_address(const std::string& ip);

}  // namespace specdec
