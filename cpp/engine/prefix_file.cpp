#include "engine/prefix_file.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "platform/file.h"

namespace specdec {
namespace {

constexpr char magic[] = "SDPREFIX";
constexpr std::uint32_t version = 2;
constexpr std::size_t max_token_bytes = sizeof(Token) << 24;

// A name that was meant for another option must not cost its file.
void check_replaceable(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  char start[sizeof magic - 1];
  if (std::memcmp(start, magic, File::open(path).read_some(0, start, sizeof start)) != 0)
    throw Error(path + ": is not a prompt cache, so it is not replaced");
}

}  // namespace

void write_prefix_file(const std::string& path, const PrefixFile& prefix) {
  check_replaceable(path);
  CheckedFileWriter file(path, magic, version);
  file.field(prefix.target_key);
  file.field(prefix.draft_key);
  file.field(prefix.tokens);
  file.field(prefix.target_state);
  file.field(&prefix.num_draft_tokens, sizeof prefix.num_draft_tokens);
  file.field(prefix.draft_state);
  file.finish();
}

PrefixFile read_prefix_file(const std::string& path) {
  CheckedFileReader file(path, magic, version, "a prompt cache");
  PrefixFile prefix;
  prefix.target_key = file.field();
  prefix.draft_key = file.field();
  prefix.tokens = file.values<Token>();
  prefix.target_state = file.field();
  const auto counts = file.values<std::uint64_t>();
  prefix.draft_state = file.field();
  if (counts.size() != 1 || !file.at_end() || counts[0] > prefix.tokens.size()) file.fail();
  prefix.num_draft_tokens = counts[0];
  return prefix;
}

std::vector<Token> read_prefix_tokens(const std::string& path, const std::string& target_key,
                                      const std::string& draft_key) {
  CheckedFileStart file(path, magic, version);
  if (file.field(target_key.size()) != target_key || file.field(draft_key.size()) != draft_key)
    throw UnusableFile(path + ": is for another model");
  const std::string bytes = file.field(max_token_bytes);
  if (bytes.empty() || bytes.size() % sizeof(Token) != 0) throw UnusableFile(path + ": is damaged");
  std::vector<Token> tokens(bytes.size() / sizeof(Token));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

}  // namespace specdec
