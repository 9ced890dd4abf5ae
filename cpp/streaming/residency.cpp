#include "streaming/residency.h"

namespace specdec {

std::vector<bool> parts_that_stay(const std::vector<ResidencyPart>& parts, std::uint64_t must_go) {
  std::uint64_t left = 0, gone = 0;  // of what may go: behind the part, and gone so far
  for (const ResidencyPart& part : parts) left += part.may_go ? part.bytes : 0;
  const double share = left == 0 ? 0 : static_cast<double>(must_go) / static_cast<double>(left);
  std::vector<bool> stays;
  double due = 0;
  for (const ResidencyPart& part : parts) {
    if (part.may_go) left -= part.bytes;
    due += part.may_go ? share * static_cast<double>(part.bytes) : 0;
    const bool is_due = due >= static_cast<double>(part.bytes) / 2, is_last_chance = gone + left < must_go;
    const bool goes = part.may_go && gone < must_go && (is_due || is_last_chance);
    if (goes) {
      due -= static_cast<double>(part.bytes);
      gone += part.bytes;
    }
    stays.push_back(!goes);
  }
  return stays;
}

}  // namespace specdec
