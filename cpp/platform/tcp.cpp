#include "platform/tcp.h"

namespace specdec {

std::string to_text(const Ipv4& address) {
  std::string text;
  for (const int number : address) text += (text.empty() ? "" : ".") + std::to_string(number);
  return text;
}

}  // namespace specdec
