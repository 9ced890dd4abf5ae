#include "constraints/schema_formats.h"

#include <map>

namespace specdec {
namespace {

std::map<std::string, std::string> patterns_of_formats() {
  const std::string date =
      "((000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
      "|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|[0-9]{2}(0[48]|[2468][048]|[13579][26])-02-29)";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string clock = "T([0-9]{1,5}H([0-9]{1,5}M)?([0-9]{1,5}S)?|[0-9]{1,5}M([0-9]{1,5}S)?|[0-9]{1,5}S)";
  const auto uuid = [](const std::string& version) {
    const std::string hex = "[0-9a-f]";
    return hex + "{8}-" + hex + "{4}-" + version + hex + "{3}-" + "[89ab]" + hex + "{3}-" + hex + "{12}";
  };
  const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string group = "[0-9a-f]{1,4}";
  const auto groups = [&](int count) { return group + "(:" + group + "){" + std::to_string(count - 1) + "}"; };
  std::string ipv6 = groups(8);
  for (int before = 0; before < 8; ++before) {  // "::" stands for at least one group
    ipv6 += "|" + (before == 0 ? "" : groups(before)) + "::";
    if (before < 7) ipv6 += "(" + group + "(:" + group + "){0," + std::to_string(6 - before) + "})?";
  }
  std::map<std::string, std::string> patterns = {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P([0-9]{1,5}D(" + clock + ")?|" + clock + ")"},
      {"uuid", uuid("[1-8]")},
      {"email", "[A-Za-z0-9]+([._+-][A-Za-z0-9]+)*@([A-Za-z0-9]+([.-][A-Za-z0-9]+)*[.])?[A-Za-z]+[.][A-Za-z]{2,}"},
      {"uri", "[a-z][a-z0-9+.-]*:[A-Za-z0-9._~!$&()*+,;=:@%/?#-]+"},
      {"ipv4", "(" + byte + "[.]){3}" + byte},
      {"ipv6", ipv6},
  };
  for (const char version : std::string("12345678")) patterns[std::string("uuid") + version] = uuid({version});
  return patterns;
}

// pydantic's pattern of a Decimal, which looks ahead, and one that does not.
const char* const pydantic_decimal = R"(^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$)";
const char* const plain_decimal = "^[+-]?[0-9]{1,16}([.][0-9]{1,16})?$";

}  // namespace

const char* const web_address =
    "https?://([A-Za-z0-9]+[.-])*[A-Za-z][A-Za-z0-9]*(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~!$&()*+,;=:@/-]*)?";

const std::string* pattern_of_format(const std::string& format) {
  static const std::map<std::string, std::string> patterns = patterns_of_formats();
  const auto found = patterns.find(format);
  return found == patterns.end() ? nullptr : &found->second;
}

const char* rewritten_pattern(const std::string& pattern) {
  return pattern == pydantic_decimal ? plain_decimal : nullptr;
}

}  // namespace specdec
