#include "engine/prefix_file.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "nlohmann/json.hpp"
#include "platform/file.h"

namespace specdec {
namespace {

constexpr char prefix_magic[] = "SDPREFIX";
constexpr std::uint32_t prefix_version = 3;
constexpr std::size_t max_token_bytes = sizeof(Token) << 24;
constexpr std::size_t max_picture_bytes = std::size_t{1} << 20;

std::string json_of(const std::vector<Picture>& pictures) {
  nlohmann::json list = nlohmann::json::array();
  for (const Picture& picture : pictures)
    list.push_back({picture.place, picture.num_rows, picture.num_positions, picture.key});
  return list.dump();
}

Text text_of(std::vector<Token> tokens, const std::string& pictures) {
  Text text(std::move(tokens));
  int end = 0;
  try {
    for (const nlohmann::json& item : nlohmann::json::parse(pictures)) {
      Picture picture;
      picture.place = item.at(0).get<int>();
      picture.num_rows = item.at(1).get<int>();
      picture.num_positions = item.at(2).get<int>();
      picture.key = item.at(3).get<std::string>();
      const bool fits = picture.place >= end && picture.num_rows > 0 && picture.num_positions > 0 &&
                        picture.num_rows <= text.length() - picture.place;
      if (!fits) throw UnusableFile("its pictures do not fit its text");
      end = picture.end();
      text.pictures.push_back(std::move(picture));
    }
  } catch (const nlohmann::json::exception&) {
    throw UnusableFile("its list of pictures is damaged");
  }
  return text;
}

// A name that was meant for another option must not cost its file.
void check_replaceable(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  char start[sizeof prefix_magic - 1];
  if (std::memcmp(start, prefix_magic, File::open(path).read_some(0, start, sizeof start)) != 0)
    throw Error(path + ": is not a prompt cache, so it is not replaced");
}

}  // namespace

void write_prefix_file(const std::string& path, const PrefixFile& prefix) {
  check_replaceable(path);
  CheckedFileWriter file(path, prefix_magic, prefix_version);
  file.field(prefix.target_key);
  file.field(prefix.draft_key);
  file.field(prefix.text.tokens);
  file.field(json_of(prefix.text.pictures));
  file.field(prefix.target_state);
  file.field(&prefix.num_draft_tokens, sizeof prefix.num_draft_tokens);
  file.field(prefix.draft_state);
  file.finish();
}

PrefixFile read_prefix_file(const std::string& path) {
  CheckedFileReader file(path, prefix_magic, prefix_version, "a prompt cache");
  PrefixFile prefix;
  prefix.target_key = file.field();
  prefix.draft_key = file.field();
  std::vector<Token> tokens = file.values<Token>();
  prefix.text = text_of(std::move(tokens), file.field());
  prefix.target_state = file.field();
  const auto counts = file.values<std::uint64_t>();
  prefix.draft_state = file.field();
  if (counts.size() != 1 || !file.at_end() || counts[0] > prefix.text.tokens.size()) file.fail();
  prefix.num_draft_tokens = counts[0];
  return prefix;
}

Text read_prefix_text(const std::string& path, const std::string& target_key, const std::string& draft_key) {
  CheckedFileStart file(path, prefix_magic, prefix_version);
  if (file.field(target_key.size()) != target_key || file.field(draft_key.size()) != draft_key)
    throw UnusableFile(path + ": is for another model");
  const std::string bytes = file.field(max_token_bytes);
  if (bytes.empty() || bytes.size() % sizeof(Token) != 0) throw UnusableFile(path + ": is damaged");
  std::vector<Token> tokens(bytes.size() / sizeof(Token));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return text_of(std::move(tokens), file.field(max_picture_bytes));
}

}  // namespace specdec
